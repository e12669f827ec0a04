"""Stores with files, repositories and locks that name them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from reprokit.supply.fetch.git import ensure
from reprokit.supply.git import Commit
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.model import Base, GitCommit, Lock, PlainFile, Section, VariantLock
from reprokit.supply.mirrors.configuration import Configuration
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store

from ..conftest import Repositories, repositories, store

__all__ = ["repositories", "store"]
RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2020, licence: MIT}}
variants: {{cpu: {{base: debian:12}}}}
"""
ZERO = "0" * 64


def put(store: Store, content: bytes) -> str:
    """A file of the store; its sha256."""
    with store.scratch() as scratch:
        (Path(scratch) / "file").write_bytes(content)
        return store.add(Path(scratch) / "file")


def fetch(store: Store, name: str, commit: str) -> Commit:
    """A commit of a repository of forge.test, in the store."""
    found = Commit(f"https://forge.test/{name}", commit)
    ensure([found], store, Mirrors(store, Configuration()))
    return found


def plain(content: bytes, name: str = "a.bin") -> PlainFile:
    sha256 = hashlib.sha256(content).hexdigest()
    return PlainFile(sha256=sha256, size=len(content), name=name, urls=(f"https://files.test/{name}",))


def a_lock(
    name: str,
    files: Iterable[PlainFile] = (),
    commits: Iterable[Commit] = (),
    data: Iterable[PlainFile] = (),
    digest: str = "",
) -> Lock:
    """The lock of a recipe with one variant, `cpu`, on a bootstrapped base unless it has a registry's digest."""
    inputs = Section(base=ZERO, apt=ZERO, wheels=ZERO, git=ZERO, files=ZERO, conda=ZERO)
    suite = {"distribution": "debian", "suite": "bookworm", "architecture": "amd64", "packages": ()}
    base = Base.model_validate(
        {"reference": "debian:12", "digest": digest} if digest else {"reference": "debian:12", "bootstrap": suite}
    )
    variant = VariantLock(
        reprokit="0.1",
        inputs=inputs,
        python="3.11",
        glibc="2.36",
        machine="x86_64",
        base=base,
        files=tuple(files),
        git=tuple(GitCommit(url=c.url, commit=c.commit, tree="0" * 40) for c in commits),
    )
    return Lock(recipe=name, variants={"cpu": variant}, data=tuple(data))


def write_recipe(folder: Path, lock: Lock) -> Path:
    """A recipe and its lock beside it; the recipe's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{lock.recipe}.yaml"
    path.write_text(RECIPE.format(name=lock.recipe))
    lock_file.write(lock_file.lock_path(path), lock)
    return path


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Damage a file, however it is protected."""
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of recipes, in which the user stands; `$REPROKIT_HOME` is the test's own."""
    for name in list(os.environ):
        if name.startswith("REPROKIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    monkeypatch.setattr("reprokit.paths.data_root", lambda: tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    return tmp_path / "recipes"


@pytest.fixture
def commit(repositories: Repositories, store: Store) -> Commit:
    """A commit of team/tool, in the store."""
    head = repositories.make("team/tool", {"a": "1" * 5000, "b": "2"})
    return fetch(store, "team/tool", head)
