"""External JSON: its size is checked before it is parsed, and errors name the fault."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from reprokit.errors import SourceError
from reprokit.untrusted.limits import DOCUMENT, VALUES, Limit

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound="BaseModel")
_MOST_FAULTS = 1000
_BLOCK = 1 << 20  # bytes; each part of a split block takes 50


def measure(text: str | bytes, where: str = "", values: Limit = VALUES) -> None:
    """Raises UsageError naming `where` if a document is too large to parse."""
    DOCUMENT.check(len(text), "bytes in a JSON document", where)
    if len(text) < values.most:
        return
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    count = inside = 0
    for start in range(0, len(raw), _BLOCK):
        parts = raw[start : start + _BLOCK].split(b'"')
        bare = b"".join(parts[inside::2])  # without the content of strings
        count += sum(map(bare.count, (b",", b":", b"[", b"{")))
        inside = (inside + len(parts) - 1) % 2
    values.check(count, "values in a JSON document", where)


def parsed(text: str | bytes, where: str = "", values: Limit = VALUES) -> Any:
    """The document's value. Raises ValueError if it is not JSON, UsageError if it is too large."""
    measure(text, where, values)
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def validated(model: type[M], text: str | bytes, where: str = "") -> M:
    """The document as a model. Raises ValidationError (a ValueError), UsageError if it is too large."""
    measure(text, where)
    return model.model_validate_json(text)


def first_fault(error: ValidationError) -> tuple[str, str]:
    """The path of the first fault, with dots, and its message."""
    # Each fault needs a kilobyte of memory.
    if error.error_count() > _MOST_FAULTS:
        return "", f"{error.error_count()} fields are wrong"
    first = error.errors(include_url=False)[0]
    return ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ").replace(" after validation", "")


@contextlib.contextmanager
def understood(what: str, where: str = "") -> Iterator[None]:
    """Turn errors of parsing and validation into a SourceError about `what`."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        why = str(error).strip().replace("\n", " ")[:300]
        raise SourceError(f"{what} is not valid: {why or type(error).__name__}", where) from None
