"""Files, commits and locks in a store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from reprokit.bundle.inputs import Imported, import_inputs
from reprokit.bundle.load import checked
from reprokit.bundle.model import BundledInputs
from reprokit.bundle.write import ExportJob, write
from reprokit.config import Configuration
from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.supply.kinds.git.fetch import ensure
from reprokit.supply.kinds.git.store import tree_of
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.model import KINDS, Base, GitCommit, Lock, PlainFile, VariantLock
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store

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
    ensure([found], Mirrors(store, Configuration()))
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
    inputs = dict.fromkeys(("base", *KINDS), ZERO)
    suite = {"distribution": "debian", "suite": "bookworm", "architecture": "amd64", "packages": ()}
    origin = {"digest": digest} if digest else {"bootstrap": suite}
    base = Base.model_validate({"reference": "debian:12", **origin})
    git = tuple(GitCommit(url=c.url, commit=c.commit, tree="0" * 40) for c in commits)
    variant = VariantLock(
        reprokit="0.1", inputs=inputs, python="3.11", glibc="2.36", machine="x86_64", base=base, files=tuple(files),
        git=git,
    )  # fmt: skip
    return Lock(recipe=name, variants={"cpu": variant}, data=tuple(data))


def write_recipe(folder: Path, lock: Lock) -> Path:
    """A recipe and its lock beside it; the recipe's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{lock.recipe}.yaml"
    path.write_text(RECIPE.format(name=lock.recipe))
    lock_file.write(lock_file.lock_path(path), lock)
    return path


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Damage a file, even if it is read-only."""
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


CONTENTS = [b"", b"small", bytes(range(256)) * 9000]  # the last has several blocks of the reader


def export_inputs(
    names: Sequence[str], target: Path, store: Store, engine: Engine | None = None, **options: Any
) -> BundledInputs:
    """As `reprokit store export`."""
    inputs = write(ExportJob(engine, [], target, inputs=names, store=store, **options)).inputs
    assert inputs
    return inputs


def import_from(path: Path, store: Store, recipes: Path | None = None) -> Imported:
    """As `reprokit store import`, without the base images."""
    with ExitStack() as stack:
        (bundle,) = checked([path], stack)
        inputs = bundle.bundle.metadata.inputs
        assert inputs
        with store.in_use():
            return import_inputs(bundle, inputs, store, recipes)


def no_engine() -> object:
    raise EngineError("no engine answers")


def with_trees(lock: Lock, store: Store) -> Lock:
    """The lock with the real trees of its commits."""
    variants = {}
    for name, variant in lock.variants.items():
        commits = [
            GitCommit(url=c.url, commit=c.commit, tree=tree_of(Commit(c.url, c.commit), store)) for c in variant.git
        ]
        variants[name] = variant.model_copy(update={"git": tuple(commits)})
    return lock.model_copy(update={"variants": variants})
