"""pip's configuration from files and variables, in pip's order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.supply.kinds.wheels.pip import PipSettings, read_settings, settings_of

FILE = """\
[global]
index-url = https://me:secret@index.test/simple
extra-index-url =
    https://extra.test/simple
    /srv/simple
find-links = https://links.test/page.html
cert = /etc/ca.pem
trusted-host = extra.test links.test
[download]
cert = /etc/download.pem
[install]
index-url = https://not-asked.test/simple
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only pip configuration file."""
    for name in [n for n in os.environ if n.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"):
        monkeypatch.setenv(name, str(tmp_path))
    file = tmp_path / "pip.conf"
    file.write_text(FILE)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    return file


@pytest.mark.slow
def test_files_and_variables_in_pips_order(configured: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PIP_FIND_LINKS", "wheels ~/more")
    monkeypatch.setenv("PIP_PROXY", "http://me:secret@proxy.test:3128")
    monkeypatch.chdir(configured.parent)
    found = read_settings()
    assert found.indexes == (
        "https://me:secret@index.test/simple", "https://extra.test/simple", "file:///srv/simple",
    )  # fmt: skip
    assert found.find_links == (f"file://{configured.parent}/wheels", f"file://{configured.parent}/more")
    assert (found.cert, found.trusted_hosts) == ("/etc/download.pem", ("extra.test", "links.test"))
    assert found.proxy == "http://me:secret@proxy.test:3128"
    assert not found.own_index
    assert "secret" not in repr(found)


@pytest.mark.slow
def test_pips_own_index_is_asked_of_pip(configured: Path):
    configured.write_text("")
    found = read_settings()
    assert found.own_index
    assert found.index.startswith("https://") and found.index.endswith("/simple")
    assert found.indexes == (found.index,)


@pytest.mark.slow
def test_no_index_leaves_the_folders(configured: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PIP_NO_INDEX", "on")
    found = read_settings()
    assert (found.indexes, found.find_links) == ((), ("https://links.test/page.html",))


def test_an_empty_setting_is_none():
    assert settings_of(":env:.index-url=''\n:env:.proxy=' '") == PipSettings(own_index=True)


@pytest.mark.slow
def test_a_configuration_that_pip_cannot_read(configured: Path):
    configured.write_text("no section\n")
    with pytest.raises(SourceError, match="pip cannot read its configuration") as error:
        read_settings()
    assert "pip config debug" in error.value.hint
