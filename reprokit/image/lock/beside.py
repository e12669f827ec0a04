"""Locks beside a recipe, whose base and apt packages a new lock takes over, so that images share layers.

Only locks that this user's reprokit has resolved, or that came with it, are followed: apt checks the signatures of the
packages that it resolves, and a stranger's lock could name any file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from reprokit import paths
from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import ReprokitError, UsageError
from reprokit.image.base.resolve import on_engine, published_digest
from reprokit.image.lock.read import stale, variant_lock
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_file
from reprokit.supply.fetch.download import Measure
from reprokit.supply.kinds.apt.install import AptInstall, FollowedSets
from reprokit.supply.lock.file import SUFFIX, lock_text, parse
from reprokit.supply.lock.model import AptPackage, Base, VariantLock
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store, key_of

_RESOLVED = "resolved"
_AT_ONCE = 8


@dataclass(frozen=True)
class LockBeside:
    """The lock of another variant with the same base, and the apt installs that it was resolved for."""

    label: str
    lock: VariantLock
    installs: Sequence[AptInstall]

    def sets(self, installs: Sequence[AptInstall]) -> dict[AptInstall, tuple[AptPackage, ...]]:
        """The packages of each of these installs that the lock has too."""
        common = [install for install in installs if install in self.installs]
        return {install: _set(self.lock, install.block) for install in common}


def remember(lock: VariantLock, store: Store) -> None:
    """Mark the base and the apt packages of a lock as resolved by this user's reprokit."""
    store.remember(_RESOLVED, _key(lock), True)


def is_own(lock: VariantLock, store: Store) -> bool:
    """Whether `remember` was called for the base and the apt packages of a lock."""
    return bool(store.remembered(_RESOLVED, _key(lock)))


def locks_beside(target: Target, store: Store) -> Iterator[LockBeside]:
    """The locks in the recipe's folder that may be followed: of variants with the same base, and not stale."""
    bundled = paths.data_root() / "recipes"
    for path in sorted(target.path.parent.glob(f"*{SUFFIX}")):
        for other, lock in _variants(path, target.variant.base):
            if other.label == target.label or lock.machine != os.uname().machine:
                continue
            if path.parent.resolve() != bundled.resolve() and not is_own(lock, store):
                continue
            with suppress(ReprokitError):  # that recipe may be invalid
                rendered = render(other)
                if not {"base", "apt"} & {*stale(other, rendered, lock)}:
                    yield LockBeside(other.label, lock, rendered.installs)


def followed(
    engine: Engine, target: Target, installs: Sequence[AptInstall], base: Base | None, mirrors: Mirrors
) -> tuple[Base | None, FollowedSets]:
    """The base and apt sets of the neighbouring lock with the most in common whose files are still served.

    With a `base`, only locks with that one count.
    """
    beside = [other for other in locks_beside(target, mirrors.store) if base in (None, other.lock.base)]
    for other in sorted(beside, key=lambda other: (-len(other.sets(installs)), other.label)):
        sets = other.sets(installs)
        inputs = [package.locked_input(other.lock.apt_as_of) for packages in sets.values() for package in packages]
        if (base is None and not _base_served(engine, other.lock.base, mirrors)) or not _served(inputs, mirrors):
            continue
        shared = ["its base"] if base is None else []
        if blocks := ", ".join(install.block for install in sets):
            shared.append(f"its apt packages of {blocks}")
        if shared:
            notify(f"following the lock of {other.label}: {' and '.join(shared)}; `--update base` takes today's")
        return other.lock.base, FollowedSets(sets, other.lock.apt_as_of)
    return None, FollowedSets()


def locked_apart(targets: Sequence[Target]) -> list[str]:
    """Labels of the variants that would share layers if they were locked together: equal requests, other packages."""
    read = [(target.label, variant_lock(target), frozenset(render(target).installs)) for target in targets]
    locks = [(label, lock, installs) for label, lock, installs in read if lock is not None]
    apart: dict[str, None] = {}
    for (label, lock, installs), (other_label, other, other_installs) in combinations(locks, 2):
        if (lock.base.reference, lock.machine) != (other.base.reference, other.machine):
            continue
        blocks = {install.block for install in installs & other_installs}
        if lock.base != other.base or any(set(_set(lock, block)) != set(_set(other, block)) for block in blocks):
            apart |= {label: None, other_label: None}
    return list(apart)


def _set(lock: VariantLock, block: str) -> tuple[AptPackage, ...]:
    return tuple(package.model_copy(update={"blocks": ()}) for package in lock.apt if block in package.blocks)


def _variants(path: Path, reference: str) -> Iterator[tuple[Target, VariantLock]]:
    """The variants of a lock with this base. A recipe or lock that cannot be read has none."""
    try:
        text = lock_text(path)
        if reference not in text:
            return
        lock = parse(text, str(path), path.name.removesuffix(SUFFIX))
        recipe_path = path.with_name(f"{path.name.removesuffix(SUFFIX)}.yaml")
        recipe = load_file(recipe_path)
    except (UsageError, FileNotFoundError):
        return
    for name, variant in lock.variants.items():
        if name in recipe.variants and variant.base.reference == reference:
            yield Target(recipe, name, recipe_path), variant


def _key(lock: VariantLock) -> str:
    return key_of(lock.model_dump(mode="json", include={"base", "apt", "apt_as_of"}))


def _base_served(engine: Engine, base: Base, mirrors: Mirrors) -> bool:
    if base.bootstrap:
        return _served(base.locked_inputs(), mirrors)
    reference = f"{base.reference.partition('@')[0]}@{base.digest}"
    return bool(on_engine(engine, reference) or published_digest(engine, reference, []))


def _served(inputs: Sequence[LockedInput], mirrors: Mirrors) -> bool:
    """Whether some mirror has each of the files, by its size."""
    with Measure(mirrors) as measure, ThreadPoolExecutor(_AT_ONCE) as pool:
        return all(pool.map(lambda file: any(measure.size(url) == file.size for url in mirrors.urls(file)), inputs))
