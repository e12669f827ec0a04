"""Which records stay. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from reprokit.results.likeness import identity
from reprokit.results.record import Record


def kept(numbered: Sequence[tuple[int, Record]], before: str | None, last: int | None) -> list[int]:
    """The numbers of the lines that stay: from the date `before` on, or the `last` records of each case."""
    if before is not None:
        return [number for number, record in numbered if record.time >= before]
    left: dict[str, int] = {}
    found = []
    for number, record in sorted(numbered, key=lambda pair: pair[1].time, reverse=True):
        key = identity(record)
        left[key] = left.get(key, 0) + 1
        if left[key] <= (last or 0):
            found.append(number)
    return sorted(found)
