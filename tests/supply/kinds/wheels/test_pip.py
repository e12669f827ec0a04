"""The host's pip: its configuration in its own order, without modules of the current folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.supply.kinds.wheels import pip
from reprokit.supply.kinds.wheels.pip import PipSettings, nearest_versions, settings_of
from reprokit.supply.kinds.wheels.platform import Platform

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
# Files of an untrusted checkout that Python would import from the current folder.
PLANTED = ("pip.py", "pip/__init__.py", "pip/__main__.py", "runpy.py", "sitecustomize.py", "json.py")


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only pip configuration file, named relative to the current folder."""
    for name in [n for n in os.environ if n.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"):
        monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / "current").mkdir()
    monkeypatch.chdir(tmp_path / "current")
    monkeypatch.setenv("PIP_CONFIG_FILE", "pip.conf")
    return tmp_path / "current/pip.conf"


@pytest.mark.slow
def test_files_and_variables_in_pips_order(configured: Path, monkeypatch: pytest.MonkeyPatch):
    configured.write_text(FILE)
    monkeypatch.setenv("PIP_FIND_LINKS", "wheels ~/more")
    monkeypatch.setenv("PIP_PROXY", "http://me:secret@proxy.test:3128")
    settings = pip.read_settings()
    assert settings.indexes == (
        "https://me:secret@index.test/simple", "https://extra.test/simple", "file:///srv/simple",
    )  # fmt: skip
    assert settings.find_links == (f"file://{configured.parent}/wheels", f"file://{configured.parent.parent}/more")
    assert (settings.cert, settings.trusted_hosts) == ("/etc/download.pem", ("extra.test", "links.test"))
    assert settings.proxy == "http://me:secret@proxy.test:3128"
    assert not settings.own_index
    assert "secret" not in repr(settings)
    configured.write_text("no section\n")
    with pytest.raises(SourceError, match="pip cannot read its configuration") as error:
        pip.read_settings()
    assert "pip config debug" in error.value.hint


def test_an_empty_setting_is_none_and_no_index_leaves_the_folders():
    assert settings_of(":env:.index-url=''\n:env:.proxy=' '") == PipSettings(own_index=True)
    page = "https://links.test/page.html"
    listing = (
        f"global.index-url='https://i.test'\nglobal.extra-index-url='https://e.test'\nglobal.find-links='{page}'\n"
    )
    assert settings_of(f"{listing}:env:.no-index='on'") == PipSettings(find_links=(page,))


@pytest.mark.slow
def test_planted_modules_do_not_run(configured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in PLANTED:
        file = configured.parent / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    (tmp_path / "ran").unlink()  # the control: written by runpy.py with Python 3.10, by pip with later ones
    configured.write_text("[global]\nproxy = http://proxy.test\n")
    monkeypatch.setattr(pip.sys, "path", ["", str(configured.parent), *sys.path])
    settings = pip.read_settings()
    assert settings.own_index and settings.proxy == "http://proxy.test"
    assert settings.index.startswith("https://") and settings.index.endswith("/simple")
    assert settings.indexes == (settings.index,)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert pip.versions("no-such-package-at-all", Platform("3.11", "2.36"), ["file:///nowhere"]) == []
    assert not (tmp_path / "ran").exists()
    monkeypatch.setattr(pip.sys, "path", ["/nowhere"])
    with pytest.raises(SourceError, match="this Python has no pip"):
        pip.read_settings()


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("x==2.5", ["2.0", "2.4", "2.6", "3.0"]),
        ("x==0.1", ["1.0", "2.0", "2.4", "2.6"]),
        ("x==99", ["2.4", "2.6", "3.0", "3.1"]),
        ("x", ["2.4", "2.6", "3.0", "3.1"]),
    ],
)
def test_nearest_versions(requirement: str, expected: list[str]):
    assert nearest_versions(requirement, ["1.0", "2.0", "2.4", "2.6", "3.0", "3.1", "not a version"]) == expected
