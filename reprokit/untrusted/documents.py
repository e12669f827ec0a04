"""JSON of strangers, measured before it is parsed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reprokit.untrusted.limits import DOCUMENT, VALUES

if TYPE_CHECKING:
    from pydantic import ValidationError

_MOST_FAULTS = 1000


def measure(text: str | bytes, where: str = "") -> None:
    """Raises UsageError naming `where` for a document too large to parse."""
    DOCUMENT.check(len(text), "bytes in a JSON document", where)
    # Some of them are in strings: a bound, and far faster to find than the number itself.
    signs = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
    VALUES.check(sum(map(text.count, signs)), "values in a JSON document", where)  # type: ignore[arg-type]


def parsed(text: str | bytes, where: str = "") -> Any:
    """The document's value. Raises ValueError where it is no JSON, UsageError where it is too large."""
    measure(text, where)
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def first_fault(error: ValidationError) -> tuple[str, str]:
    """Where, with dots, and what is wrong first."""
    # Each fault takes a kilobyte when it is asked for.
    if error.error_count() > _MOST_FAULTS:
        return "", f"{error.error_count()} fields are wrong"
    first = error.errors(include_url=False)[0]
    return ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
