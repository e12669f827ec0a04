"""Addresses of repositories that would lie inside one another's place in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.supply.kinds.git.store import folder_of, has_commit
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from reprokit.supply.upkeep import collect, inventory
from tests.support.repositories import Repositories
from tests.support.stores import fetch


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def repositories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repositories:
    root = tmp_path / "forge"
    root.mkdir()
    config = tmp_path / "gitconfig"
    config.write_text(f'[url "{root}/"]\n\tinsteadOf = https://forge.test/\n[user]\n\tname = t\n\temail = t@x.org\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    return Repositories(root)


@pytest.mark.parametrize("below", ["x", "objects", "refs/heads", ".git/x"])
def test_an_address_below_another_does_not_stand_for_it(store, repositories, below):
    good = repositories.make("team/tool", {"a": "good"})
    inside = f"team/tool/{good}.git/{below}"
    evil = repositories.make(inside, {"a": "evil"})
    fetch(store, inside, evil)
    victim = Commit("https://forge.test/team/tool", good)
    assert not folder_of(victim, store).exists()  # nothing looks fetched that is not
    fetch(store, "team/tool", good)
    assert has_commit(folder_of(victim, store), good)
    assert {each.key.url for each in inventory.repositories(store)} == {victim.url, f"https://forge.test/{inside}"}


def test_places_are_distinct_and_none_is_inside_another(store):
    commit = "0" * 40
    paths = ["a/b", "a/b/", "a/b.git/c", f"a/b/{commit}.git/c", "a%2Fb", "a//b", "A/b", "a/b~", ":1/a", "a/b/c"]
    folders = [folder_of(Commit(f"https://h.test/{path}", commit), store) for path in paths]
    assert len(set(folders)) == len(paths)
    assert {folder.parent.parent for folder in folders} == {store.root / "repositories"}


@pytest.mark.slow
def test_what_an_earlier_layout_left_is_fetched_again_and_freed(store, repositories):
    """An earlier store may be poisoned already."""
    good = repositories.make("team/tool", {"a": "good"})
    old = store.root / "git" / "forge.test" / "team" / "tool" / f"{good}.git"
    (old / "x").mkdir(parents=True)
    fetch(store, "team/tool", good)
    assert has_commit(folder_of(Commit("https://forge.test/team/tool", good), store), good)
    found = collect.plan(store)
    assert [leftover.paths for leftover in found.leftovers] == [(store.root / "git",)]
    collect.free(store, found)
    assert not old.exists() and folder_of(Commit("https://forge.test/team/tool", good), store).exists()
