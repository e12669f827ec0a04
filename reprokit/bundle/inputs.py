"""The inputs of recipes in a bundle: written for a node that has no network, and published into its store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from reprokit.bundle.model import BundledInputs, GitPack, RecipeText
from reprokit.bundle.read import BLOCK, Reader, VerifiedBundle
from reprokit.bundle.recipes import Recipes
from reprokit.bundle.resumable_tar import ResumableTar
from reprokit.display import ByteProgress, notify
from reprokit.engine import Engine, ImageInfo
from reprokit.errors import SourceError, UsageError
from reprokit.filelocks import acquire
from reprokit.formatting import counted
from reprokit.host.disk import require_space
from reprokit.image.base.resolve import carried_name, locked_base
from reprokit.oci.compress import Hashed
from reprokit.oci.model import blob_path
from reprokit.oci.read import engine_image
from reprokit.recipe.load import recipe_text
from reprokit.supply.kinds.git.command import git
from reprokit.supply.kinds.git.store import folder_of, pack, unpack
from reprokit.supply.lock.file import lock_path, lock_text
from reprokit.supply.lock.model import Base, Lock, Sized
from reprokit.supply.locked_input import Commit, LockedInput
from reprokit.supply.store import Store, sha256_of
from reprokit.supply.upkeep import locked, names_of

_BLOCK = 1 << 20
_MOST_NAMED = 5
_PUBLISHERS = 8  # each waits for the disk to sync its file


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
    by_digest = {base.digest: base for base in bases if base.digest}
    return [by_digest[digest] for digest in sorted(by_digest)]


@contextlib.contextmanager
def base_images(engine: Engine | None, bases: Sequence[Base], store: Store) -> Iterator[list[ImageInfo]]:
    """The base images, tagged with their names in the bundle while the block runs. Raises as `locked_base`."""
    images: list[ImageInfo] = []
    with contextlib.ExitStack() as stack:
        for base in bases if engine else ():
            assert engine
            name = carried_name(base.digest or "")
            present = locked_base(engine, base, store)
            if engine.image_id(name) != present.image_id:  # anyone can give another image this name
                engine.tag(present.image_id, *name.split(":"))
                stack.callback(engine.remove_image, name)
            images.append(replace(engine_image(engine, name), labels={}))
        yield images


def add_inputs(
    tar: ResumableTar, names: Sequence[str], folder: Path, store: Store, progress: ByteProgress
) -> BundledInputs:
    """Add the files and commits that the locks name; `folder` must have space for them.

    The caller must hold `store.in_use()`. Raises SourceError if an input is missing or damaged.
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
        for blob, path in [*((file, store.path(file.sha256)) for file in inputs.files), *packs.items()]:
            with path.open("rb") as source:
                _add(tar, blob, source)
            done += blob.size
            progress(done, total)
    return inputs


def _texts(recipe: Path, lock: Lock) -> RecipeText:
    return RecipeText(name=lock.recipe, recipe=recipe_text(recipe), lock=lock_text(lock_path(recipe)))


def _files(inputs: Iterable[LockedInput], store: Store) -> tuple[Sized, ...]:
    by_sha256: dict[str, Sized] = {}
    for file in inputs:
        if sha256 := file.stored(store):
            by_sha256[sha256] = Sized(sha256=sha256, size=file.size)
        else:
            notify(f"{file.name} is excluded: benchmark data that is not in the store")
    return tuple(by_sha256[key] for key in sorted(by_sha256))


def _packs(commits: Iterable[Commit], store: Store, scratch: Path) -> dict[GitPack, Path]:
    packs: dict[GitPack, Path] = {}
    for number, commit in enumerate(sorted(commits)):
        path = scratch / f"{number}.pack"
        shallow = pack(folder_of(commit, store), commit, path)
        size = path.stat().st_size
        packs[GitPack(url=commit.url, commit=commit.commit, shallow=shallow, sha256=sha256_of(path), size=size)] = path
    return packs


def _add(tar: ResumableTar, expected: Sized, source: IO[bytes]) -> None:
    path = blob_path(expected.sha256)
    if path in tar.entries:
        return
    hashed = Hashed(tar.write)
    with tar.begin():
        while block := source.read(_BLOCK):
            hashed.write(block)
        if (hashed.digest, hashed.size) != (f"sha256:{expected.sha256}", expected.size):
            raise SourceError(
                f"{expected.sha256} is damaged in the store: expected {expected.size} bytes with this SHA-256",
                hint="remove it: `reprokit store verify --repair`; then repeat `reprokit fetch`",
            )
        tar.finish(path, hashed.size)


@dataclass
class Imported:
    """The numbers of new files and repositories, and lines on local recipes that differ from the bundle's."""

    files: int = 0
    repositories: int = 0
    differing: list[str] = field(default_factory=list)


def import_inputs(file: VerifiedBundle, inputs: BundledInputs, store: Store, folder: Path | None = None) -> Imported:
    """Publish files and repositories, and put the recipes into `folder`.

    Without a folder, compare the local recipes with the bundle's. The caller must hold `store.in_use()`. Raises
    UsageError if an input of a target is missing or wrong, or if `folder` has another recipe of the same name.
    """
    where = file.bundle.where
    recipes = Recipes(inputs.recipes, file.bundle.metadata.beside, where)
    _refuse_incomplete(inputs, recipes.locks, store, where)
    if folder:
        recipes.refuse_others_in(folder)
    with store.scratch() as scratch:
        staged = _stage(file, inputs, store, Path(scratch))
        variants = [variant for lock in recipes.locks.values() for variant in lock.variants.values()]
        trees = {source.address: source.tree for variant in variants for source in variant.git}
        repositories = _unpacked(staged, trees, where)
        imported = Imported()
        files = [(path, blob.sha256) for blob, path in staged.items() if not isinstance(blob, GitPack)]
        with ThreadPoolExecutor(_PUBLISHERS) as pool:
            imported.files = sum(1 for _ in pool.map(lambda file: store.publish(*file), files))
        for commit, path in repositories.items():
            imported.repositories += _publish(path, commit, store)
    if folder:
        recipes.put(folder, store)
    else:
        imported.differing = recipes.compare(store)
    return imported


def _refuse_incomplete(inputs: BundledInputs, locks: dict[str, Lock], store: Store, where: str) -> None:
    """Raises UsageError if an input of the targets is neither in the bundle nor in the store."""
    files = {file.sha256 for file in inputs.files}
    commits = {Commit(pack.url, pack.commit) for pack in inputs.packs}
    for target in inputs.targets:
        name, _, variant = target.partition(":")
        if name not in locks or variant not in locks[name].variants:
            raise UsageError(f"the bundle has no lock of {target}", where, "export it again")
        lock = locks[name].variants[variant]
        missing = [w.name for w in lock.locked_inputs() if w.sha256 not in files and not store.path(w.sha256).exists()]
        named = [source.address for source in lock.git]
        missing += [c.name for c in named if c not in commits and not folder_of(c, store).is_dir()]
        if lock.base.digest and lock.base.digest not in inputs.bases:
            missing.append(lock.base.reference)
        if missing:
            message = f"the bundle lacks {len(missing)} inputs of {target}, for example {missing[0]}"
            raise UsageError(message, where, "export it again")


def _stage(file: VerifiedBundle, inputs: BundledInputs, store: Store, scratch: Path) -> dict[Sized, Path]:
    """Copy each input that the store lacks into a file of its own."""
    new: list[Sized] = [blob for blob in inputs.files if not store.path(blob.sha256).exists()]
    packs = [blob for blob in inputs.packs if not folder_of(Commit(blob.url, blob.commit), store).is_dir()]
    # A repository is written as a pack, and again with an index.
    require_space(sum(blob.size for blob in [*new, *packs, *packs]), scratch)
    staged = {blob: scratch / f"{number}" for number, blob in enumerate([*new, *packs])}
    for blob, path in staged.items():
        raw = Reader(file.bundle, file.bundle.member(blob.sha256), f"sha256:{blob.sha256}")
        with path.open("wb") as out:
            while block := raw.read(BLOCK):
                out.write(block)
    return staged


def _unpacked(staged: dict[Sized, Path], trees: dict[Commit, str], where: str) -> dict[Commit, Path]:
    """Unpack each pack to a repository. Raises UsageError if its tree is not the locked one."""
    repositories: dict[Commit, Path] = {}
    for blob, path in staged.items():
        if isinstance(blob, GitPack):
            commit = Commit(blob.url, blob.commit)
            repositories[commit] = path.with_suffix(".git")
            why = unpack(path, commit, blob.shallow, repositories[commit])
            if not why:
                tree = git("rev-parse", f"{commit.commit}^{{tree}}", folder=repositories[commit]).strip()
                locked = trees.get(commit, tree)
                why = "" if tree == locked else f"its tree is {tree}, expected {locked}"
            if why:
                hint = "nothing was imported; export it again"
                raise UsageError(f"{commit.name} at {commit.commit[:12]}: {why}", where, hint)
    return repositories


def _publish(folder: Path, commit: Commit, store: Store) -> bool:
    """Publish a repository. Return False if another process has fetched it meanwhile."""
    published = folder_of(commit, store)
    published.parent.mkdir(parents=True, exist_ok=True)
    with published.with_suffix(".lock").open("ab") as lock:
        acquire(lock, f"another reprokit is fetching {commit.url}; waiting for it")
        if published.is_dir():
            return False
        folder.replace(published)
        return True
