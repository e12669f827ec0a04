"""Wheels of what has no lock: resolved once, remembered, and fetched as locked ones are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from reprokit.recipe.model import Sdist
from reprokit.supply.kinds.wheels.platform import Platform, WheelSet
from reprokit.supply.kinds.wheels.resolve import lock_wheels
from reprokit.supply.lock.model import Distribution
from reprokit.supply.locked_input import of_distribution
from reprokit.supply.store import Store, key_of

if TYPE_CHECKING:
    from reprokit.supply.mirrors.places import Mirrors


def resolve_wheels(
    requirements: Sequence[str],
    sdists: Sequence[Sdist],
    platform: Platform,
    indexes: Sequence[str],
    mirrors: Mirrors,
    store: Store,
    say: Callable[[str], None] = lambda line: None,
) -> WheelSet:
    """The wheels for these requirements, without a question to any index where the same was asked before.

    Raises SourceError, see `lock_wheels`.
    """
    key = key_of([sorted(set(requirements)), [s.model_dump() for s in sdists], asdict(platform), list(indexes)])
    known = store.remembered("wheels", key)
    if known is None:
        found = lock_wheels(requirements, sdists, platform, indexes, mirrors, store, say)
        known = [wheel.model_dump() for wheel in found]
        store.remember("wheels", key, known)
    return WheelSet(tuple(Distribution.model_validate(wheel) for wheel in known))


def fetch_wheels(
    wheels: WheelSet, mirrors: Mirrors, store: Store, say: Callable[[str], None] = lambda line: None
) -> None:
    """Have their files in the store. Raises SourceError where one cannot be had any more."""
    from reprokit.supply.fetch.pool import fetch_all

    wants = [of_distribution(wheel) for wheel in wheels.wheels]
    fetch_all(wants, store, mirrors, say=say, settings=lambda: mirrors.settings)
