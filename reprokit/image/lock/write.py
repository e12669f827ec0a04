"""Resolve the inputs of a variant and write its lock."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reprokit.display import StepDisplay, notify
from reprokit.engine import Engine
from reprokit.image.lock.fit import errors_of
from reprokit.image.lock.read import recipe_lock
from reprokit.image.lock.resolve import data_of, lock_variant, merged_data, update_of
from reprokit.importing.asof import moment_of
from reprokit.importing.tree import commit_date
from reprokit.recipe.find import Target
from reprokit.supply.kinds.git.fetch import ensure
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.lock.file import changing, check_writable, lock_path, write
from reprokit.supply.lock.model import VariantLock
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store


@dataclass(frozen=True)
class WrittenLock:
    """A variant's lock in the file `path`; `changed` if it differs from the one before."""

    lock: VariantLock
    changed: bool
    path: Path


def lock(
    engine: Engine, target: Target, update: Sequence[str] = (), *, data: bool = False, as_of: str = "",
    force: bool = False,
) -> WrittenLock:  # fmt: skip
    """Resolve all inputs of a variant and write them into the recipe's lock.

    What the present lock has stays, but for `update`: pins, sources or sections. `as_of` (a date, "commit" or "now")
    resolves wheels to what the indexes had then, `data` also locks data of unknown checksum, `force` ignores errors of
    `check`. Raises UsageError, WorkFailed, SourceError, EngineError; then nothing is written.
    """
    store, before = Store(), recipe_lock(target)
    old = before.variants.get(target.variant_name)
    freed = update_of([*update, *(["wheels"] if as_of else [])], target, old)
    mirrors = Mirrors(store, indexes=target.variant.wheel_indexes)
    path = lock_path(target.path)
    with StepDisplay(sys.stderr):
        notify(f"locking {target.label}")
        check_writable(path)
        time = _time_of(as_of, target, mirrors) if as_of else ""
        found = lock_variant(engine, target, store, mirrors, old, freed, time)
        errors_of(target, force, found)
        files = data_of(target.recipe, before.data, data, mirrors)
    with changing(path):
        now = recipe_lock(target)  # meanwhile another process may have locked another variant
        variants = {**now.variants, target.variant_name: found}
        order = {name: variants[name] for name in target.recipe.variants if name in variants}
        write(path, now.model_copy(update={"variants": order, "data": merged_data(target.recipe, files, now.data)}))
    return WrittenLock(found, found != old, path)


def _time_of(as_of: str, target: Target, mirrors: Mirrors) -> str:
    """The time of `--as-of`; `commit` is that of the variant's first source. Raises UsageError, SourceError."""
    date = None
    if as_of == "commit" and target.variant.sources:
        source = target.variant.sources[0]
        commit = Commit(source.git, source.commit)
        ensure([commit], mirrors)
        date = commit_date(folder_of(commit, mirrors.store), source.commit)
    moment = moment_of(as_of, date, target.label)
    if moment.time:
        notify(f"wheels are those of {moment.day}; apt, conda and files have no dates, and are today's")
    return moment.time
