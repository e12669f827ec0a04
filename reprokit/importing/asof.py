"""The moment whose versions count: a date, that of the commit, or now."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import NamedTuple

from reprokit.errors import UsageError


class Moment(NamedTuple):
    """`time` is ISO 8601 in UTC for an index; empty for now."""

    day: date
    time: str


def moment_of(text: str, commit: datetime | None, where: str) -> Moment:
    """The moment of `--as-of`; without it, the commit's date if it is known.

    Raises UsageError for a text that is no date, and for `commit` if its date is not known.
    """
    if text == "now" or not (text or commit):
        return Moment(datetime.now(timezone.utc).date(), "")
    if text in ("", "commit"):
        if commit is None:
            raise UsageError("the date of the commit is not known", where, "give a date: --as-of 2021-06-30")
        return Moment(commit.date(), commit.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a date", "--as-of", "write 2021-06-30, `commit` or `now`") from None
    return Moment(day, f"{day}T23:59:59Z")
