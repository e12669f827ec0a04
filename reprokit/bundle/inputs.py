"""The inputs of recipes, written into a bundle for a node that has no network."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from reprokit.bundle.model import BundledInputs, GitPack, RecipeText
from reprokit.bundle.resumable_tar import ResumableTar
from reprokit.display import ByteProgress, notify
from reprokit.engine import Engine, ImageInfo
from reprokit.errors import SourceError
from reprokit.formatting import counted
from reprokit.host.disk import require_space
from reprokit.image.base.resolve import carried_name, locked_base
from reprokit.oci.compress import Hashed
from reprokit.oci.model import blob_path
from reprokit.oci.read import engine_image
from reprokit.recipe.load import recipe_text
from reprokit.supply.kinds.git.store import folder_of, pack
from reprokit.supply.lock.file import lock_path, lock_text
from reprokit.supply.lock.model import Base, Lock, Sized
from reprokit.supply.locked_input import Commit, LockedInput
from reprokit.supply.store import Store, sha256_of
from reprokit.supply.upkeep.names import locked, names_of

_BLOCK = 1 << 20
_MOST_NAMED = 5


def require_inputs(names: Sequence[str], store: Store) -> None:
    """Raises UsageError if a lock is missing, SourceError if an input is missing."""
    for _, lock in map(locked, names):
        inputs = {w.sha256: w for variant in lock.variants.values() for w in variant.locked_inputs()}
        missing = [w.name for w in inputs.values() if not store.path(w.sha256).exists()]
        commits = sorted(names_of([lock]).commits)
        missing += [f"{c.name} at {c.commit[:12]}" for c in commits if not folder_of(c, store).exists()]
        if missing:
            some = ", ".join(missing[:_MOST_NAMED]) + (", ..." if len(missing) > _MOST_NAMED else "")
            message = f"the store lacks {counted(len(missing), 'input')} of {lock.recipe}: {some}"
            raise SourceError(message, hint=f"fetch them: `reprokit fetch {lock.recipe}`")


def registry_bases(names: Iterable[str]) -> list[Base]:
    """The base images that come from a registry, each once."""
    bases = [variant.base for _, lock in map(locked, names) for variant in lock.variants.values()]
    found = {base.digest: base for base in bases if base.digest}
    return [found[digest] for digest in sorted(found)]


@contextlib.contextmanager
def base_images(engine: Engine | None, bases: Sequence[Base], store: Store) -> Iterator[list[ImageInfo]]:
    """These bases under their names in the bundle, for as long as the block runs. Raises as `locked_base`."""
    found: list[ImageInfo] = []
    with contextlib.ExitStack() as stack:
        for base in bases if engine else ():
            assert engine
            name = carried_name(base.digest or "")
            present = locked_base(engine, base, store)
            if engine.image_id(name) != present.image_id:  # anyone can give another image this name
                engine.tag(present.image_id, *name.split(":"))
                stack.callback(engine.remove_image, name)
            found.append(replace(engine_image(engine, name), labels={}))
        yield found


def add_inputs(
    tar: ResumableTar, names: Sequence[str], folder: Path, store: Store, progress: ByteProgress
) -> BundledInputs:
    """Add the files and commits that the locks name; `folder` must have space for them.

    For the caller to hold `store.in_use()`. Raises SourceError if an input is missing or damaged.
    """
    chosen = [locked(name) for name in names]
    locks = [lock for _, lock in chosen]
    named = names_of(locks)
    with store.scratch() as scratch:
        packs = _packs(named.commits, store, Path(scratch))
        inputs = BundledInputs(
            targets=tuple(sorted({f"{lock.recipe}:{variant}" for lock in locks for variant in lock.variants})),
            recipes=tuple({lock.recipe: _texts(recipe, lock) for recipe, lock in chosen}.values()),
            files=_files(named.inputs.values(), store),
            packs=tuple(packs),
            bases=tuple(base.digest or "" for base in registry_bases(names)),
        )
        require_space(total := sum(inputs.blobs.values()), folder)
        done = 0
        for each, path in [*((file, store.path(file.sha256)) for file in inputs.files), *packs.items()]:
            with path.open("rb") as source:
                _add(tar, each, source)
            done += each.size
            progress(done, total)
    return inputs


def _texts(recipe: Path, lock: Lock) -> RecipeText:
    return RecipeText(name=lock.recipe, recipe=recipe_text(recipe), lock=lock_text(lock_path(recipe)))


def _files(inputs: Iterable[LockedInput], store: Store) -> tuple[Sized, ...]:
    found: dict[str, Sized] = {}
    for file in inputs:
        if sha256 := file.stored(store):
            found[sha256] = Sized(sha256=sha256, size=file.size)
        else:
            notify(f"{file.name} is excluded: benchmark data that is not in the store")
    return tuple(found[key] for key in sorted(found))


def _packs(commits: Iterable[Commit], store: Store, scratch: Path) -> dict[GitPack, Path]:
    found: dict[GitPack, Path] = {}
    for number, commit in enumerate(sorted(commits)):
        path = scratch / f"{number}.pack"
        shallow = pack(folder_of(commit, store), commit, path)
        size = path.stat().st_size
        found[GitPack(url=commit.url, commit=commit.commit, shallow=shallow, sha256=sha256_of(path), size=size)] = path
    return found


def _add(tar: ResumableTar, expected: Sized, source: IO[bytes]) -> None:
    path = blob_path(expected.sha256)
    if path in tar.entries:
        return
    found = Hashed(tar.write)
    with tar.begin():
        while block := source.read(_BLOCK):
            found.write(block)
        if (found.digest, found.size) != (f"sha256:{expected.sha256}", expected.size):
            raise SourceError(
                f"{expected.sha256} is damaged in the store: expected {expected.size} bytes with this SHA-256",
                hint="remove it: `reprokit store verify --repair`; then repeat `reprokit fetch`",
            )
        tar.finish(path, found.size)
