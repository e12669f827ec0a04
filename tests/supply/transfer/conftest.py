"""Recipes whose inputs are in a store, and a second node's empty store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.supply.kinds.git.store import Commit
from reprokit.supply.store import Store
from reprokit.supply.transfer.exporting import export
from reprokit.supply.transfer.importing import Imported, take_in
from tests.support.stores import CONTENTS, a_lock, no_engine, plain, put, with_trees, write_recipe


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
