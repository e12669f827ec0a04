"""The suite has a home of its own, and a run that changes the user's folders fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

# Each starts a pytest of its own.
pytestmark = pytest.mark.long

TEST = """
import os, pathlib, subprocess, sys
from reprokit import paths

def test_x():
    assert not os.environ.get("XDG_DATA_HOME") and not os.environ.get("REPROKIT_BLOCKS")
    own = paths.home(), paths.data(), paths.state(), paths.config_file().parent
    real = {str(pathlib.Path(USER, base, "reprokit")) for base in (".cache", "data", ".local/state", ".config")}
    assert real.isdisjoint(map(str, own))
    assert (pathlib.Path.home() / ".config/pip/pip.conf").read_text() == "[global]\\n"
    paths.private(paths.home())
    subprocess.run([sys.executable, "-c", "from reprokit import paths; paths.private(paths.data())"], check=True)
    for name in TOUCHED:
        (pathlib.Path(USER) / name).touch()
"""
OURS = ("data/reprokit/workspaces/mine", "data/reprokit/new", ".cache/reprokit/new", "own/new")


@pytest.mark.parametrize("options", [(), ("-n1",)])
@pytest.mark.parametrize("touched", [OURS, ()])
def test_the_folders_of_the_user_stay_as_they_are(tmp_path: Path, touched: tuple[str, ...], options: tuple[str]):
    user, folder = tmp_path / "user", tmp_path / "tests"
    for name in ("data/reprokit/workspaces", ".cache/reprokit", ".config/pip", "own"):
        (user / name).mkdir(parents=True)
    (user / ".config/pip/pip.conf").write_text("[global]\n")
    (user / "data/reprokit/workspaces/mine").touch()
    folder.mkdir()
    names = (*touched, "data/another-program")
    (folder / "test_x.py").write_text(f"USER = {str(user)!r}\nTOUCHED = {names!r}\n{TEST}")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment |= {
        **{"PYTHONPATH": str(ROOT), "HOME": str(user), "XDG_DATA_HOME": str(user / "data")},
        **{"REPROKIT_HOME": str(user / "own"), "REPROKIT_BLOCKS": "/mine"},
    }
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.home", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == bool(touched), done.stdout
    for name in names:
        assert (f"error: {user / name}\n" in done.stdout) == (name in touched), done.stdout
