from __future__ import annotations

import pytest

from reprokit.recipe.model import Source
from reprokit.supply.git import Commit, folder_of
from reprokit.supply.lock.git import lock_git
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.mirrors.configuration import Configuration
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store

from ..conftest import Repositories


def source(name: str, commit: str, submodules: bool = True, ref: str = "") -> Source:
    return Source(name="s", git=f"https://forge.test/{name}", commit=commit, ref=ref, path="/s", submodules=submodules)


def lock(wanted: Source, store: Store) -> tuple[GitCommit, ...]:
    return lock_git(wanted, store, lambda line: None, Mirrors(store, Configuration()))


def test_submodules_at_all_depths_with_their_trees(repositories: Repositories, store: Store):
    leaf = repositories.make("lib/leaf", {"l": "1"})
    middle = repositories.make("lib/middle", {"m": "1"}, {"deep/leaf": ("lib/leaf", "../leaf.git")})
    top = repositories.make(
        "team/top",
        {"t": "1"},
        {"a": ("lib/middle", "../../lib/middle.git"), "b": ("lib/leaf", "https://forge.test/lib/leaf.git")},
    )
    expected = tuple(
        GitCommit(url=f"https://forge.test/{n}", commit=c, tree=repositories.git(n, "rev-parse", "HEAD^{tree}"))
        for n, c in (("team/top", top), ("lib/leaf", leaf), ("lib/middle", middle))
    )
    assert lock(source("team/top", top), store) == expected
    assert lock(source("team/top", top, submodules=False), store) == expected[:1]


def test_locked_once_needs_no_git(repositories: Repositories, store: Store, monkeypatch: pytest.MonkeyPatch):
    head = repositories.make("team/tool", {"a": "1"})
    first = lock(source("team/tool", head), store)
    monkeypatch.setenv("PATH", "")
    assert lock(source("team/tool", head), store) == first


def test_what_left_the_store_is_fetched_again(repositories: Repositories, store: Store):
    head = repositories.make("team/tool", {"a": "1"})
    first = lock(source("team/tool", head), store)
    folder = folder_of(Commit("https://forge.test/team/tool", head), store)
    folder.rename(folder.with_name("away"))
    assert lock(source("team/tool", head), store) == first
    assert folder.is_dir()
