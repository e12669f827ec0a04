"""`reprokit lock`: resolve everything that a variant takes in. Sections that need no change stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from packaging.utils import canonicalize_name

from reprokit import __version__
from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.image.base.resolve import lock_base, locked_base
from reprokit.image.lock.beside import followed, is_own, remember
from reprokit.image.lock.read import SECTIONS, sections, stale, still_locked
from reprokit.image.lock.supplies import Supplier
from reprokit.image.render import render
from reprokit.image.request import MACHINES, request_of
from reprokit.recipe.find import Target
from reprokit.recipe.model import Recipe
from reprokit.recipe.spelling import nearest
from reprokit.supply.kinds import kinds, source
from reprokit.supply.kinds.apt.install import FollowedSets
from reprokit.supply.kinds.files import lock_file
from reprokit.supply.kinds.kind import Tools
from reprokit.supply.lock.model import PlainFile, RecordFile, VariantLock
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store


@dataclass(frozen=True)
class Update:
    """What `--update` resolves again: whole sections, and single entries of others."""

    sections: frozenset[str] = frozenset()
    singles: frozenset[str] = frozenset()


def update_of(names: Sequence[str], target: Target, lock: VariantLock | None) -> Update:
    """The meaning of these names: `all`, a section, a pin, or a member of a section. Raises UsageError."""
    freed: set[str] = set()
    singles: set[str] = set()
    members = {kind.name: set(kind.names(target.variant, lock)) for kind in kinds()}
    alone = {name for kind in kinds() for name in kind.singles(lock)}
    for name in names:
        if name == "all":
            freed |= set(SECTIONS)
        elif name in SECTIONS:
            freed.add(name)
        elif canonicalize_name(name) in alone:
            singles.add(canonicalize_name(name))
        elif section := next((section for section, known in members.items() if name in known), None):
            freed.add(section)
        elif of_pin := next((kind.name for kind in kinds() if name in kind.pins and name in target.variant.pins), ""):
            freed.add(of_pin)
        elif name in ("distro", "base"):
            freed.add("base")
        else:
            known = {"all", *SECTIONS, *alone, *(n for each in members.values() for n in each)}
            raise UsageError(
                f"the lock of {target.label} has no {name!r}{nearest(name, known)}",
                hint=f"--update takes all, a section ({', '.join(SECTIONS)}) or a member of a section",
            )
    return Update(frozenset(freed), frozenset(singles))


def lock_variant(
    engine: Engine,
    target: Target,
    store: Store,
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
    base = kept or beside or lock_base(engine, target.variant.base, store)
    # The base's own packages decide which apt packages fit.
    redo |= {kind.name for kind in kinds() if kind.in_base} if "base" in redo else set()
    Supplier(store, mirrors).files(base.locked_inputs())
    here = locked_base(engine, base, store)
    machine = MACHINES.get(here.architecture, here.architecture)
    request = replace(request_of(target, rendered, machine), followed=sets)
    tools = Tools(mirrors, engine, lambda: here)
    resolved: dict[str, Any] = {}
    for kind in sorted(kinds(), key=lambda kind: not kind.first):
        freed = update.singles & set(kind.singles(old))
        if old and kind.name not in redo and not freed and not kind.follows(old, resolved):
            resolved |= kind.kept(old)
        else:
            keep = None if kind.name in update.sections else old
            asked = replace(request, old=keep, freed=freed, as_of=as_of, sections=resolved)
            resolved |= kind.resolve(asked, tools)
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
    if {"base", "apt"} <= redo or (old and is_own(old, store)):
        remember(lock, store)
    return lock.model_copy(update={"inputs": sections(target, rendered, machine)})


def data_of(
    recipe: Recipe, old: Sequence[PlainFile | RecordFile], unknown: bool, mirrors: Mirrors
) -> tuple[PlainFile | RecordFile, ...]:
    """The files of the recipe's benchmarks. Big files of unknown checksum are downloaded only if `unknown`."""
    known = {file.name: file for file in old}
    found: list[PlainFile | RecordFile] = []
    for data in recipe.data:
        kept = known.get(data.name)
        if kept and still_locked(data, kept):
            found.append(kept)
        elif data.source:
            scheme, _, record = data.source.partition(":")
            listed = source(scheme).find(record, data.name, mirrors)
            found.append(listed.model_copy(update={"sha256": data.sha256}))
        elif data.sha256 or unknown:
            found.append(lock_file(data, mirrors))
        else:
            notify(f"data {data.name} is not locked: its checksum is unknown; --data downloads it")
    return tuple(found)


def merged_data(
    recipe: Recipe, found: Sequence[PlainFile | RecordFile], now: Sequence[PlainFile | RecordFile]
) -> tuple[PlainFile | RecordFile, ...]:
    """The files that `data_of` found, and what another process has meanwhile locked or completed."""
    known = {file.name: file for file in found}
    present = {file.name: file for file in now}
    for data in recipe.data:
        if data.name in present and still_locked(data, present[data.name]):
            known[data.name] = present[data.name]
    return tuple(known[data.name] for data in recipe.data if data.name in known)
