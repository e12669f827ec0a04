"""Freeing space: remove everything that no lock names and that is old enough."""

from __future__ import annotations

import math
import time
from collections.abc import Container, Iterable
from dataclasses import dataclass

from reprokit.errors import EngineError
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from reprokit.supply.upkeep import inventory
from reprokit.supply.upkeep.inventory import Leftover, Stored
from reprokit.supply.upkeep.names import all_locks, names_of
from reprokit.supply.upkeep.verify import remove

_DAY_S = 24 * 60 * 60
YOUNG_S = _DAY_S  # a build without a lock may still need it
PARTIAL_S = 7 * _DAY_S


@dataclass(frozen=True)
class Plan:
    """What `gc` removes, and what it keeps because a lock names it or because it is recent."""

    goes: tuple[Stored, ...]
    leftovers: tuple[Leftover, ...]
    named: tuple[Stored, ...]
    young: tuple[Stored, ...]

    @property
    def size(self) -> int:
        """Bytes to free."""
        return sum(each.size for each in self.goes) + sum(leftover.size for leftover in self.leftovers)


def plan(store: Store, everything: bool = False, now: float | None = None) -> Plan:
    """What to remove at the time `now` (seconds since 1970), recent files too with `everything`.

    The caller has the store `alone()`. Raises UsageError if a lock cannot be read.
    """
    now = time.time() if now is None else now
    names = names_of(all_locks(store))
    leftovers = [
        *inventory.old_repositories(store),
        *inventory.scratch(store),  # no process is using scratch: it would hold the store
        *_before(math.inf if everything else now - PARTIAL_S, inventory.partials(store)),
        *_before(now - _DAY_S, inventory.half_written_answers(store)),
    ]
    stored = [*inventory.files(store), *inventory.repositories(store)]
    return decide(stored, leftovers, names.labels, math.inf if everything else now - YOUNG_S)


def decide(
    stored: Iterable[Stored], leftovers: Iterable[Leftover], named: Container[str | Commit], young_since: float
) -> Plan:
    """Keep named entries and those newer than `young_since`."""
    kept: list[Stored] = []
    young: list[Stored] = []
    goes: list[Stored] = []
    for each in stored:
        (kept if each.key in named else young if each.since > young_since else goes).append(each)
    return Plan(tuple(goes), tuple(leftovers), tuple(kept), tuple(young))


def free(store: Store, found: Plan) -> None:
    """Remove it. After an interruption each file and repository is either complete or gone.

    Raises EngineError if the system refuses.
    """
    trash = store.root / "tmp"
    trash.mkdir(parents=True, exist_ok=True)
    try:
        for leftover in found.leftovers:
            for path in leftover.paths:
                remove(path, trash)
        for each in found.goes:
            remove(each.path, trash)
            if isinstance(each.key, Commit):
                each.path.with_suffix(".lock").unlink(missing_ok=True)
    except OSError as error:
        hint = "does it belong to another user?"
        raise EngineError(f"cannot free space in the store: {error.strerror}", str(error.filename), hint) from None


def _before(then: float, leftovers: Iterable[Leftover]) -> list[Leftover]:
    return [leftover for leftover in leftovers if leftover.since <= then]
