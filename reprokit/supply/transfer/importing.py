"""An archive of inputs taken into the store: read whole and checked before any of it is published."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from filelock import FileLock

from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.host.disk import require_space
from reprokit.supply.kinds.git.command import git
from reprokit.supply.kinds.git.store import Commit, folder_of
from reprokit.supply.lock.model import Lock, VariantLock
from reprokit.supply.store import Store
from reprokit.supply.transfer.image import load_images, refuse_foreign_names
from reprokit.supply.transfer.manifest import Entry, File, Image, Manifest, Repository
from reprokit.supply.transfer.recipes import Recipes
from reprokit.supply.transfer.repository import unpack
from reprokit.supply.transfer.stream import Reader, Watch

Say = Callable[[str], None]
_PUBLISHERS = 8  # each waits for the disk to sync its file


@dataclass
class Imported:
    """What came that was not here before, and lines on the recipes that are not here as they came."""

    manifest: Manifest
    files: int = 0
    repositories: int = 0
    images: int = 0
    strange: list[str] = field(default_factory=list)


def take_in(
    archive: Path,
    store: Store,
    connect: Callable[[], Engine],
    recipes: Path | None = None,
    say: Say = lambda line: None,
    watch: Watch = lambda done, total: None,
) -> Imported:
    """Publish an archive's files and repositories, load its bases, and put its recipes into the folder `recipes`.

    Without that folder the recipes here are compared with the archive's. Without an engine the bases stay out, and are
    said to. For the caller to hold `store.in_use()`. Raises UsageError naming the entry where the archive is not
    exactly what an export writes, or where another recipe of the name stands in `recipes`; nothing is published then.
    """
    try:
        file = archive.open("rb")
    except OSError as error:
        raise UsageError(f"the archive cannot be read: {error.strerror}", str(archive)) from None
    with file:
        return take_in_from(file, archive, store, connect, recipes, say, watch)


def take_in_from(
    file: IO[bytes],
    archive: Path,
    store: Store,
    connect: Callable[[], Engine],
    recipes: Path | None = None,
    say: Say = lambda line: None,
    watch: Watch = lambda done, total: None,
) -> Imported:
    """`take_in` of an archive that is open, `archive` being what errors call it."""
    with store.scratch() as scratch:
        reader = Reader(file, str(archive), watch)
        manifest = reader.manifest()
        carried = Recipes({entry: b"".join(reader.content(entry)) for entry in manifest.texts}, str(archive))
        _refuse_incomplete(manifest, carried.locks, store, archive)
        if recipes:
            carried.refuse_others_in(recipes)
        staged = _stage(reader, manifest, store, Path(scratch))
        folders = _unpacked(staged, _trees(carried.locks.values()), Path(scratch), archive)
        images = {entry: path for entry, path in staged.items() if isinstance(entry, Image)}
        refuse_foreign_names(images, archive)

        found = Imported(manifest)
        files = [(path, entry.sha256) for entry, path in staged.items() if isinstance(entry, File)]
        with ThreadPoolExecutor(_PUBLISHERS) as pool:
            found.files = sum(1 for _ in pool.map(lambda each: store.publish(*each), files))
        for commit, folder in folders.items():
            found.repositories += _publish(folder, commit, store)
        found.strange = carried.put(recipes, store) if recipes else carried.compare(store)
        found.images = load_images(images, connect, say) if images else 0
        return found


def _refuse_incomplete(manifest: Manifest, locks: dict[str, Lock], store: Store, archive: Path) -> None:
    """What the archive says that it holds whole is whole together with what is here."""
    files = {entry.sha256 for entry in manifest.files}
    commits = {Commit(entry.url, entry.commit) for entry in manifest.repositories}
    images = {entry.digest for entry in manifest.images}
    for target in manifest.targets:
        name, _, variant = target.partition(":")
        if name not in locks or variant not in locks[name].variants:
            raise UsageError(f"the archive has no lock of {target}", str(archive), "export it again")
        lock = locks[name].variants[variant]
        lacking = [w.name for w in lock.locked_inputs() if w.sha256 not in files and not store.path(w.sha256).exists()]
        lacking += [c.name for c in _commits(lock) if c not in commits and not folder_of(c, store).is_dir()]
        lacking += [lock.base.reference] if lock.base.digest and lock.base.digest not in images else []
        if lacking:
            message = f"the archive lacks {len(lacking)} inputs of {target}, {lacking[0]} for one"
            raise UsageError(message, str(archive), "export it again")


def _commits(lock: VariantLock) -> list[Commit]:
    return [Commit(locked.url, locked.commit) for locked in lock.git]


def _trees(locks: Iterable[Lock]) -> dict[Commit, str]:
    variants = [variant for lock in locks for variant in lock.variants.values()]
    return {Commit(locked.url, locked.commit): locked.tree for variant in variants for locked in variant.git}


def _stage(reader: Reader, manifest: Manifest, store: Store, scratch: Path) -> dict[Entry, Path]:
    """Read all that follows the recipes; what is not here yet as a file each."""
    entries = manifest.entries[len(manifest.texts) :]
    new = [entry for entry in entries if not _is_here(entry, store)]
    # A repository is written as a pack, and again with an index.
    require_space(sum(entry.size * (2 if isinstance(entry, Repository) else 1) for entry in new), scratch)
    staged = {entry: scratch / f"{number}" for number, entry in enumerate(new)}
    for entry in entries:
        if entry in staged:
            with staged[entry].open("wb") as out:
                for block in reader.content(entry):
                    out.write(block)
        else:
            for _ in reader.content(entry):
                pass
    reader.end()
    return staged


def _is_here(entry: Entry, store: Store) -> bool:
    if isinstance(entry, Repository):
        return folder_of(Commit(entry.url, entry.commit), store).is_dir()
    return isinstance(entry, File) and store.path(entry.sha256).exists()


def _unpacked(staged: dict[Entry, Path], trees: dict[Commit, str], scratch: Path, archive: Path) -> dict[Commit, Path]:
    """A repository for each pack, with the tree that the lock says."""
    found: dict[Commit, Path] = {}
    for entry, path in staged.items():
        if isinstance(entry, Repository):
            commit = Commit(entry.url, entry.commit)
            found[commit] = scratch / f"{path.name}.git"
            why = unpack(path, commit, entry.shallow, found[commit])
            if not why:
                tree = git("rev-parse", f"{commit.commit}^{{tree}}", folder=found[commit]).strip()
                locked = trees.get(commit, tree)
                why = "" if tree == locked else f"it has the tree {tree}, expected {locked}"
            if why:
                raise UsageError(f"{entry.path}: {why}", str(archive), "nothing of it was taken; export it again")
    return found


def _publish(folder: Path, commit: Commit, store: Store) -> bool:
    """Whether it came now; another process may have fetched it meanwhile."""
    published = folder_of(commit, store)
    published.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(published.with_suffix(".lock")):
        if published.is_dir():
            return False
        folder.replace(published)
        return True
