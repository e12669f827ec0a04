"""Locked inputs that upstream has changed or removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.image.base.resolve import moved_base
from reprokit.image.lock.supplies import Supplier
from reprokit.image.render import render
from reprokit.image.request import request_of
from reprokit.recipe.find import Target
from reprokit.supply.kinds import all_kinds
from reprokit.supply.kinds.kind import Tools, UpstreamChange
from reprokit.supply.lock.model import VariantLock
from reprokit.supply.mirrors import Mirrors


def outdated(
    engine: Engine, target: Target, lock: VariantLock, mirrors: Mirrors
) -> tuple[list[UpstreamChange], list[ReprokitError]]:
    """All upstream changes, by section, and the errors of sections that could not be checked."""
    tools = Tools(mirrors, engine, cache(partial(Supplier(mirrors).base, engine, lock.base)))
    request = request_of(target, render(target), lock.machine)
    checks: list[Callable[[], Iterable[UpstreamChange]]] = [partial(moved_base, engine, lock.base, mirrors.store)]
    checks += [partial(kind.upstream_changes, request, tools, lock) for kind in all_kinds()]
    changes: list[UpstreamChange] = []
    errors: list[ReprokitError] = []
    for check in checks:
        try:
            changes += check()
        except ReprokitError as error:
            errors.append(error)
    return changes, errors
