"""The inputs in a bundle, published into the store; nothing is published before all of them are checked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from reprokit.bundle.model import BundledInputs, GitPack
from reprokit.bundle.recipes import Recipes
from reprokit.bundle.verify import BLOCK, Reader, VerifiedBundle
from reprokit.errors import UsageError
from reprokit.filelocks import acquire
from reprokit.host.disk import require_space
from reprokit.supply.kinds.git.command import git
from reprokit.supply.kinds.git.store import folder_of, unpack
from reprokit.supply.lock.model import Lock, Sized
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store

_PUBLISHERS = 8  # each waits for the disk to sync its file


@dataclass
class Imported:
    """The numbers of new files and repositories, and lines on recipes that differ from those here."""

    files: int = 0
    repositories: int = 0
    differing: list[str] = field(default_factory=list)


def import_inputs(file: VerifiedBundle, inputs: BundledInputs, store: Store, folder: Path | None = None) -> Imported:
    """Publish files and repositories, and put the recipes into `folder`.

    Without a folder the recipes here are compared with the bundle's. For the caller to hold `store.in_use()`. Raises
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
        trees = {each.address: each.tree for variant in variants for each in variant.git}
        repositories = _unpacked(staged, trees, where)
        found = Imported()
        files = [(path, each.sha256) for each, path in staged.items() if not isinstance(each, GitPack)]
        with ThreadPoolExecutor(_PUBLISHERS) as pool:
            found.files = sum(1 for _ in pool.map(lambda each: store.publish(*each), files))
        for commit, path in repositories.items():
            found.repositories += _publish(path, commit, store)
    if folder:
        recipes.put(folder, store)
    else:
        found.differing = recipes.compare(store)
    return found


def _refuse_incomplete(inputs: BundledInputs, locks: dict[str, Lock], store: Store, where: str) -> None:
    """The bundle and the store together must have every input of the targets."""
    files = {each.sha256 for each in inputs.files}
    commits = {Commit(each.url, each.commit) for each in inputs.packs}
    for target in inputs.targets:
        name, _, variant = target.partition(":")
        if name not in locks or variant not in locks[name].variants:
            raise UsageError(f"the bundle has no lock of {target}", where, "export it again")
        lock = locks[name].variants[variant]
        missing = [w.name for w in lock.locked_inputs() if w.sha256 not in files and not store.path(w.sha256).exists()]
        named = [each.address for each in lock.git]
        missing += [c.name for c in named if c not in commits and not folder_of(c, store).is_dir()]
        if lock.base.digest and lock.base.digest not in inputs.bases:
            missing.append(lock.base.reference)
        if missing:
            message = f"the bundle lacks {len(missing)} inputs of {target}, for example {missing[0]}"
            raise UsageError(message, where, "export it again")


def _stage(file: VerifiedBundle, inputs: BundledInputs, store: Store, scratch: Path) -> dict[Sized, Path]:
    """Copy each input that the store lacks into a file of its own."""
    new: list[Sized] = [each for each in inputs.files if not store.path(each.sha256).exists()]
    packs = [each for each in inputs.packs if not folder_of(Commit(each.url, each.commit), store).is_dir()]
    # A repository is written as a pack, and again with an index.
    require_space(sum(each.size for each in [*new, *packs, *packs]), scratch)
    staged = {each: scratch / f"{number}" for number, each in enumerate([*new, *packs])}
    for each, path in staged.items():
        raw = Reader(file.bundle, file.bundle.member(each.sha256), f"sha256:{each.sha256}")
        with path.open("wb") as out:
            while block := raw.read(BLOCK):
                out.write(block)
    return staged


def _unpacked(staged: dict[Sized, Path], trees: dict[Commit, str], where: str) -> dict[Commit, Path]:
    """A repository for each pack, with the tree that the lock names."""
    found: dict[Commit, Path] = {}
    for each, path in staged.items():
        if isinstance(each, GitPack):
            commit = Commit(each.url, each.commit)
            found[commit] = path.with_suffix(".git")
            why = unpack(path, commit, each.shallow, found[commit])
            if not why:
                tree = git("rev-parse", f"{commit.commit}^{{tree}}", folder=found[commit]).strip()
                locked = trees.get(commit, tree)
                why = "" if tree == locked else f"its tree is {tree}, expected {locked}"
            if why:
                hint = "nothing was imported; export it again"
                raise UsageError(f"{commit.name} at {commit.commit[:12]}: {why}", where, hint)
    return found


def _publish(folder: Path, commit: Commit, store: Store) -> bool:
    """Whether the repository is new; another process may have fetched it meanwhile."""
    published = folder_of(commit, store)
    published.parent.mkdir(parents=True, exist_ok=True)
    with published.with_suffix(".lock").open("ab") as lock:
        acquire(lock, f"another reprokit is fetching {commit.url}; waiting for it")
        if published.is_dir():
            return False
        folder.replace(published)
        return True
