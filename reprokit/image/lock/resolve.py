"""`reprokit lock`: resolve all inputs of a variant and write the lock. Sections that need no change stay."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from reprokit import __version__
from reprokit.display import StepDisplay, notify
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.image.base.resolve import lock_base
from reprokit.image.lock.beside import followed, is_own, remember
from reprokit.image.lock.fit import errors_of
from reprokit.image.lock.read import SECTIONS, recipe_lock, sections, stale, still_locked
from reprokit.image.lock.supplies import Supplier
from reprokit.image.render import render
from reprokit.image.request import MACHINES, request_of
from reprokit.importing.tree import commit_date, moment_of
from reprokit.recipe.find import Target
from reprokit.recipe.model import Recipe
from reprokit.recipe.spelling import nearest
from reprokit.supply.kinds import all_kinds, zenodo
from reprokit.supply.kinds.apt.install import FollowedSets
from reprokit.supply.kinds.files import lock_file
from reprokit.supply.kinds.git.fetch import ensure
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.kinds.kind import Tools
from reprokit.supply.lock.file import changing, check_writable, lock_path, write
from reprokit.supply.lock.model import PlainFile, RecordFile, VariantLock
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store


@dataclass(frozen=True)
class Update:
    """The targets of `--update`: complete sections, and single entries of others."""

    sections: frozenset[str] = frozenset()
    singles: frozenset[str] = frozenset()


def update_of(names: Sequence[str], target: Target, lock: VariantLock | None) -> Update:
    """The meaning of these names: `all`, a section, a pin, or a member of a section. Raises UsageError."""
    freed: set[str] = set()
    singles: set[str] = set()
    members = {kind.name: set(kind.names(target.variant, lock)) for kind in all_kinds()}
    alone = {name for kind in all_kinds() for name in kind.updatable(lock)}
    for name in names:
        if name == "all":
            freed |= set(SECTIONS)
        elif name in SECTIONS:
            freed.add(name)
        elif canonicalize_name(name) in alone:
            singles.add(canonicalize_name(name))
        elif section := next((section for section, entries in members.items() if name in entries), None):
            freed.add(section)
        elif of_pin := next((k.name for k in all_kinds() if name in k.pins and name in target.variant.pins), ""):
            freed.add(of_pin)
        elif name in ("distro", "base"):
            freed.add("base")
        else:
            allowed = {"all", *SECTIONS, *alone}.union(*members.values())
            raise UsageError(
                f"the lock of {target.label} has no {name!r}{nearest(name, allowed)}",
                hint=f"--update takes all, a section ({', '.join(SECTIONS)}) or a member of a section",
            )
    return Update(frozenset(freed), frozenset(singles))


def lock_variant(
    engine: Engine,
    target: Target,
    mirrors: Mirrors,
    old: VariantLock | None,
    update: Update,
    as_of: str = "",
) -> VariantLock:
    """Lock one variant. Sections of `old` that are neither stale nor in `update` are kept.

    A base and apt packages that are resolved follow a lock beside the recipe, unless they are in `update`.
    With `as_of` (ISO 8601), wheels are those that were uploaded by then.

    Raises SourceError naming what could not be resolved, EngineError without an engine.
    """
    rendered = render(target)
    redo = {*stale(target, rendered, old), *update.sections} if old else set(SECTIONS)
    kept = old.base if old and "base" not in redo else None
    beside, sets = None, FollowedSets()
    if {"base", "apt"} & redo and "base" not in update.sections:
        installs = () if "apt" in update.sections else rendered.installs
        beside, sets = followed(engine, target, installs, kept, mirrors)
    base = kept or beside or lock_base(engine, target.variant.base, mirrors.store)
    # The base's own packages decide which apt packages fit.
    redo |= {kind.name for kind in all_kinds() if kind.in_base} if "base" in redo else set()
    image = Supplier(mirrors).base(engine, base)
    machine = MACHINES.get(image.architecture, image.architecture)
    request = replace(request_of(target, rendered, machine), followed=sets)
    tools = Tools(mirrors, engine, lambda: image)
    resolved: dict[str, Any] = {}
    for kind in sorted(all_kinds(), key=lambda kind: not kind.first):
        freed = update.singles & set(kind.updatable(old))
        if old and kind.name not in redo and not freed and not kind.follows(old, resolved):
            resolved |= kind.kept(old)
        else:
            keep = None if kind.name in update.sections else old
            of_kind = replace(request, old=keep, freed=freed, as_of=as_of, sections=resolved)
            resolved |= kind.resolve(of_kind, tools)
    platform = request.platform
    lock = VariantLock.model_validate(
        {
            "reprokit": __version__,
            "inputs": {},
            "python": platform.python if platform else "",
            "glibc": platform.glibc if platform else "",
            "machine": machine,
            "base": base,
            **resolved,
        }
    )
    if {"base", "apt"} <= redo or (old and is_own(old, mirrors.store)):
        remember(lock, mirrors.store)
    return lock.model_copy(update={"inputs": sections(target, rendered, machine)})


def data_of(
    recipe: Recipe, old: Sequence[PlainFile | RecordFile], unknown: bool, mirrors: Mirrors
) -> tuple[PlainFile | RecordFile, ...]:
    """The files of the recipe's benchmarks. Big files of unknown checksum are downloaded only if `unknown`."""
    locked = {file.name: file for file in old}
    files: list[PlainFile | RecordFile] = []
    for data in recipe.data:
        kept = locked.get(data.name)
        if kept and still_locked(data, kept):
            files.append(kept)
        elif data.source:
            _, _, record = data.source.partition(":")
            listed = zenodo.find(record, data.name, mirrors)
            files.append(listed.model_copy(update={"sha256": data.sha256}))
        elif data.sha256 or unknown:
            files.append(lock_file(data, mirrors))
        else:
            notify(f"data {data.name} is not locked: its checksum is unknown; --data downloads it")
    return tuple(files)


def merged_data(
    recipe: Recipe, files: Sequence[PlainFile | RecordFile], now: Sequence[PlainFile | RecordFile]
) -> tuple[PlainFile | RecordFile, ...]:
    """The `files` of `data_of`, except for those that another process has locked or completed `now`."""
    merged = {file.name: file for file in files}
    present = {file.name: file for file in now}
    for data in recipe.data:
        if data.name in present and still_locked(data, present[data.name]):
            merged[data.name] = present[data.name]
    return tuple(merged[data.name] for data in recipe.data if data.name in merged)


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

    Entries of the present lock stay, except for `update`: pins, sources or sections. `as_of` (a date, "commit" or
    "now") resolves wheels to what the indexes had then, `data` also locks data of unknown checksum, `force` ignores
    errors of `check`. Raises UsageError, WorkFailed, SourceError, EngineError; then nothing is written.
    """
    before = recipe_lock(target)
    old = before.variants.get(target.variant_name)
    freed = update_of([*update, *(kind.name for kind in all_kinds() if as_of and kind.dated)], target, old)
    mirrors = Mirrors(Store(), indexes=target.variant.wheel_indexes)
    path = lock_path(target.path)
    with StepDisplay(sys.stderr):
        notify(f"locking {target.label}")
        check_writable(path)
        time = _time_of(as_of, target, mirrors) if as_of else ""
        new = lock_variant(engine, target, mirrors, old, freed, time)
        errors_of(target, force, new)
        files = data_of(target.recipe, before.data, data, mirrors)
    with changing(path):
        now = recipe_lock(target)  # meanwhile another process may have locked another variant
        variants = {**now.variants, target.variant_name: new}
        order = {name: variants[name] for name in target.recipe.variants if name in variants}
        write(path, now.model_copy(update={"variants": order, "data": merged_data(target.recipe, files, now.data)}))
    return WrittenLock(new, new != old, path)


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
