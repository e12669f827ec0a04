"""Workspaces and the recipes of bundles are the user's data, not a cache."""

from __future__ import annotations

import pytest

from reprokit import paths
from reprokit.errors import UsageError


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The folders of a user who set no REPROKIT_HOME: the cache's and the data's."""
    monkeypatch.delenv("REPROKIT_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "cache/reprokit", tmp_path / "data/reprokit"


def test_workspaces_and_recipes_are_not_in_the_cache(folders):
    cache, data = folders
    assert paths.home() == cache
    assert (paths.workspaces(), paths.carried_recipes()) == (data / "workspaces", data / "recipes")


def test_reprokit_home_has_all(monkeypatch, tmp_path):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "own"))
    assert paths.workspaces() == tmp_path / "own/workspaces"
    monkeypatch.setenv("REPROKIT_HOME", "~no-such-user/x")
    with pytest.raises(UsageError, match="there is no home folder ~no-such-user"):
        paths.home()
