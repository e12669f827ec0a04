"""Recipes whose inputs are in a store, and a second node's empty store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.errors import EngineError
from reprokit.supply.git import Commit, tree_of
from reprokit.supply.lock.model import GitCommit, Lock
from reprokit.supply.store import Store
from reprokit.supply.transfer.exporting import export
from reprokit.supply.transfer.importing import Imported, take_in

from ..upkeep.conftest import a_lock, commit, plain, put, recipes, repositories, store, write_recipe

__all__ = ["commit", "recipes", "repositories", "store"]
CONTENTS = [b"", b"small", bytes(range(256)) * 9000]  # the last spans several blocks of the reader


def no_engine() -> object:
    raise EngineError("no engine answers")


def with_trees(lock: Lock, store: Store) -> Lock:
    """The lock with the trees that its commits really have."""
    variants = {}
    for name, variant in lock.variants.items():
        commits = [
            GitCommit(url=c.url, commit=c.commit, tree=tree_of(Commit(c.url, c.commit), store)) for c in variant.git
        ]
        variants[name] = variant.model_copy(update={"git": tuple(commits)})
    return lock.model_copy(update={"variants": variants})


@pytest.fixture
def recipe(store: Store, recipes: Path, commit: Commit) -> Path:
    """The recipe `x` with files, a commit and data, all of which are in the store."""
    for content in (*CONTENTS, b"data"):
        put(store, content)
    files = [plain(content, f"f{number}.bin") for number, content in enumerate(CONTENTS)]
    return write_recipe(recipes, with_trees(a_lock("x", files, [commit], data=[plain(b"data", "d.bin")]), store))


@pytest.fixture
def archive(store: Store, recipe: Path, tmp_path: Path) -> Path:
    path = tmp_path / "x.tar.zst"
    export(["x"], path, store, no_engine)
    return path


@pytest.fixture
def node(tmp_path: Path) -> Store:
    """Another machine's store."""
    return Store(tmp_path / "node")


@pytest.fixture
def bring(archive: Path, node: Store) -> Callable[..., Imported]:
    def take(path: Path = archive, **options: object) -> Imported:
        return take_in(path, node, no_engine, **options)

    return take
