"""pip as reprokit runs it: nothing of the folder where the user stands is imported."""

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

# What an untrusted checkout may hold that Python would import from the current folder.
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
    assert "pip/__init__.py" in (tmp_path / "ran").read_text()


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


OUTDATED = pytest.param(["outdated", "fused-attention"], marks=pytest.mark.network)


@pytest.mark.parametrize("command", [["config"], OUTDATED])
def test_no_verb_runs_a_planted_pip(checkout: Path, tmp_path: Path, command: list[str]):
    """By the script's own start: `python -m reprokit` itself imports from the current folder."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from reprokit.cli import main; main()"
    run = [sys.executable, "-I", "-c", start, *command]
    environment = {**os.environ, "REPROKIT_HOME": str(tmp_path / "home"), "PIP_NO_INDEX": "1"}
    subprocess.run(run, env=environment, capture_output=True, timeout=120, check=False)
    assert not (tmp_path / "ran").exists()


def test_a_python_without_pip(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pip.sys, "path", ["/nowhere"])
    with pytest.raises(SourceError, match="this Python has no pip"):
        pip.read_settings()


def test_a_relative_configuration_file_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pip.conf").write_text("[global]\nproxy = http://proxy.test\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_CONFIG_FILE", "pip.conf")
    assert pip.read_settings().proxy == "http://proxy.test"
