"""Workspaces and the recipes of bundles are the user's data, not a cache."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reprokit import cli, paths
from reprokit.errors import UsageError


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The folders of a user who set no REPROKIT_HOME: the cache's and the data's."""
    monkeypatch.delenv("REPROKIT_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "cache/reprokit", tmp_path / "data/reprokit"


def test_what_is_in_the_cache_is_moved_once(folders):
    cache, data = folders
    assert paths.home() == cache
    assert (paths.workspaces(), paths.carried_recipes()) == (data / "workspaces", data / "recipes")
    (cache / "workspaces/taco").mkdir(parents=True)
    (cache / "workspaces/taco/mine.py").write_text("mine")
    assert paths.workspaces() == cache / "workspaces"
    notice = f"moved {cache}/workspaces out of the cache, to {data}/workspaces\n"
    assert [CliRunner().invoke(cli.app, ["blocks", "apt"]).stderr for _ in range(2)] == [notice, ""]
    assert paths.workspaces() == data / "workspaces"
    assert (data / "workspaces/taco/mine.py").read_text() == "mine"
    # Containers of earlier versions mount the files by their old path.
    assert (cache / "workspaces/taco/mine.py").read_text() == "mine"
    assert data.stat().st_mode & 0o077 == 0


def test_nothing_is_replaced(folders):
    cache, data = folders
    for folder, text in ((cache, "old"), (data, "new")):
        (folder / "workspaces/taco").mkdir(parents=True)
        (folder / "workspaces/taco/x").write_text(text)
    paths.move_user_data(pytest.fail)
    assert paths.workspaces() == data / "workspaces"
    assert [(folder / "workspaces/taco/x").read_text() for folder in (cache, data)] == ["old", "new"]


def test_on_another_disk_it_stays_and_is_used(folders, monkeypatch):
    cache, _ = folders
    (cache / "workspaces").mkdir(parents=True)

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "rename", refuse)
    paths.move_user_data(pytest.fail)
    assert paths.workspaces() == cache / "workspaces"


def test_reprokit_home_has_all(monkeypatch, tmp_path):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "own"))
    assert paths.workspaces() == tmp_path / "own/workspaces"
    monkeypatch.setenv("REPROKIT_HOME", "~no-such-user/x")
    with pytest.raises(UsageError, match="there is no home folder ~no-such-user"):
        paths.home()
