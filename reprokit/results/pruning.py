"""Which records are old. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from reprokit.errors import UsageError
from reprokit.results.likeness import identity
from reprokit.results.record import Record


def old(records: Sequence[Record], before: str | None, last: int | None) -> list[Record]:
    """The records from before the day `before`, or all but the `last` ones of each case. Raises UsageError."""
    if before is not None:
        try:
            day = date.fromisoformat(before).isoformat()
        except ValueError:
            raise UsageError(f"not a day: {before}", "--before", "write it as 2026-01-05") from None
        return [record for record in records if record.time < day]
    left: dict[str, int] = {}
    found = []
    for record in sorted(reversed(records), key=lambda record: record.time, reverse=True):
        key = identity(record)
        left[key] = left.get(key, 0) + 1
        if left[key] > (last or 0):
            found.append(record)
    return found
