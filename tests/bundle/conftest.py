"""Fixtures for the tests of bundles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.bundle.inputs_import import Imported
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from tests.support.stores import CONTENTS, a_lock, export_inputs, import_from, plain, put, with_trees, write_recipe
from tests.support.verbs import run_verb


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """$REPROKIT_HOME of the `reprokit` of this test."""
    return tmp_path / "home"


@pytest.fixture
def reprokit(home: Path, tmp_path: Path) -> Callable[..., str]:
    """`reprokit(*arguments, code=0)` runs the command in an empty folder and returns its output."""

    def run(*arguments: object, code: int = 0) -> str:
        (tmp_path / "here").mkdir(exist_ok=True)
        done = run_verb(*arguments, cwd=tmp_path / "here", env={"REPROKIT_HOME": str(home)})
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def recipe(store: Store, recipes: Path, commit: Commit) -> Path:
    """The recipe `x` with files, a commit and data, all of which are in the store."""
    for content in (*CONTENTS, b"data"):
        put(store, content)
    files = [plain(content, f"f{number}.bin") for number, content in enumerate(CONTENTS)]
    return write_recipe(recipes, with_trees(a_lock("x", files, [commit], data=[plain(b"data", "d.bin")]), store))


@pytest.fixture
def archive(store: Store, recipe: Path, tmp_path: Path) -> Path:
    path = tmp_path / "x.rkit"
    export_inputs(["x"], path, store)
    return path


@pytest.fixture
def node(tmp_path: Path) -> Store:
    """Another machine's store."""
    return Store(tmp_path / "node")


@pytest.fixture
def bring(archive: Path, node: Store) -> Callable[..., Imported]:
    def take(path: Path = archive, **options: object) -> Imported:
        return import_from(path, node, **options)  # type: ignore[arg-type]

    return take
