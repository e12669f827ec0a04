"""reprokit runs pip without importing modules of the current folder."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.supply.kinds.wheels import pip
from reprokit.supply.kinds.wheels.platform import Platform
from tests.support.paths import ROOT
from tests.support.wheels import make_wheel

# Files of an untrusted checkout that Python would import from the current folder.
PLANTED = ("pip.py", "pip/__init__.py", "pip/__main__.py", "runpy.py", "sitecustomize.py", "json.py")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, whose modules write the file `ran` when they are imported."""
    folder = tmp_path / "checkout"
    for name in PLANTED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(folder)
    return folder


def test_a_planted_module_does_run_without_isolation(checkout: Path, tmp_path: Path):
    subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    assert (tmp_path / "ran").exists()  # written by runpy.py with Python 3.10, by pip with later ones


@pytest.mark.slow
def test_a_planted_pip_is_not_run(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(real, cwd="/", capture_output=True, text=True, check=True).stdout
    assert replace(pip.read_settings(), index="") == replace(pip.settings_of(listed), index="")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert pip.read_settings().index.startswith("https://")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert pip.versions("no-such-package-at-all", Platform("3.11", "2.36"), ["file:///nowhere"]) == []
    assert not (tmp_path / "ran").exists()


# uv finds no such version, so pip is asked for its neighbours.
LOCK = """
from pathlib import Path
from reprokit.errors import SourceError
from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import lock_wheels
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store

store = Store(Path(sys.argv[1]))
try:
    lock_wheels(WheelRequest(["top==9"], Platform("3.11", "2.36")), Mirrors(store))
except SourceError as error:
    print(error.hint)
"""


@pytest.mark.parametrize(
    ("code", "argument", "shown"),
    [
        ("from reprokit.cli import main; main()", "config", "file:///"),
        (LOCK, "home", "nearest versions that exist: 1.0"),
    ],
)
@pytest.mark.slow
def test_no_planted_pip_runs_in_a_process_of_reprokit(
    checkout: Path, tmp_path: Path, code: str, argument: str, shown: str
):
    """Start as the installed script does: `python -m reprokit` itself imports from the current folder."""
    make_wheel(tmp_path / "wheels", "top", "1.0")
    run = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}", argument]
    places = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    environment = {**os.environ, "REPROKIT_HOME": str(tmp_path / "home"), **places}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert shown in done.stdout, done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_python_without_pip(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pip.sys, "path", ["/nowhere"])
    with pytest.raises(SourceError, match="this Python has no pip"):
        pip.read_settings()


@pytest.mark.slow
def test_a_relative_configuration_file_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pip.conf").write_text("[global]\nproxy = http://proxy.test\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_CONFIG_FILE", "pip.conf")
    assert pip.read_settings().proxy == "http://proxy.test"
