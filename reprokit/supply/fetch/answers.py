"""What an HTTP answer means for a download that may have begun before: pure decisions on status and headers."""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)$")
_UNSATISFIED = re.compile(r"bytes \*/(\d+)$")
_WORTH_ANOTHER_TRY = (408, 425, 429)


class Refusal(Exception):
    """Why one address did not give its file.

    `again` says that asking once more may help, `wait_s` when the server wants that, `gone` that the server knows of no
    such file, `other_bytes` that it has another under this name.
    """

    def __init__(
        self,
        why: str,
        again: bool = False,
        wait_s: float | None = None,
        gone: bool = False,
        other_bytes: bool = False,
    ) -> None:
        super().__init__(why)
        self.why = why
        self.again = again
        self.wait_s = wait_s
        self.gone = gone
        self.other_bytes = other_bytes


@dataclass(frozen=True)
class Body:
    """What to do with the body: `append` at the offset, take it from `start`, or drop it and `ask` for the whole file.

    `total` is the file's size in bytes where the answer says it. An `encoded` body is never gone on with.
    """

    do: Literal["append", "start", "ask"]
    total: int | None = None
    encoded: bool = False


def judge(status: int, headers: Mapping[str, str], offset: int, size: int | None, now: float) -> Body:
    """How the answer to a request for the bytes from `offset` on is used; `size` is the file's where it is known.

    `now` is the time since the epoch in seconds. Raises Refusal. What is not a 206 at exactly this offset of a file of
    exactly this size is never appended: others have corrupted files with a 200 (rust-lang/rustup #4710) and with a 206
    that began elsewhere (containers/ramalama PR #2917).
    """
    encoding = headers.get("Content-Encoding", "identity").lower()
    encoded = encoding not in ("identity", "")
    if status == 200:
        total = _length(headers)
        if size is not None and total is not None and total != size:
            # Of the right size it may still be the file: some servers call every .gz encoded. The hash tells.
            raise Refusal(f"it encodes the file ({encoding})") if encoded else other_size(total, size)
        return Body("start", total, encoded)
    if status == 206 and offset:
        match = _CONTENT_RANGE.match(headers.get("Content-Range", ""))
        if match and int(match[1]) == offset and not encoded:
            if size is not None and int(match[3]) != size:
                raise other_size(int(match[3]), size)
            return Body("append", int(match[3]))
        return Body("ask")
    if status == 416 and offset:
        match = _UNSATISFIED.match(headers.get("Content-Range", ""))
        if match and size is not None and int(match[1]) != size:
            raise other_size(int(match[1]), size)
        return Body("ask")
    why = f"HTTP {status}"
    if status in _WORTH_ANOTHER_TRY or status >= 500:
        raise Refusal(why, again=True, wait_s=retry_after(headers.get("Retry-After", ""), now))
    raise Refusal(why, gone=status in (404, 410))


def other_size(got: int, expected: int) -> Refusal:
    return Refusal(f"the file has {got} bytes there, expected {expected}", other_bytes=True)


def retry_after(value: str, now: float) -> float | None:
    """Seconds from `now` that a Retry-After header asks for (RFC 9110 section 10.2.3), None where it makes no sense."""
    if re.fullmatch(r"\d{1,9}", value.strip()):
        return float(value)
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.fromtimestamp(now, timezone.utc)).total_seconds())


def strong_etag(headers: Mapping[str, str]) -> str | None:
    """The ETag if it is a strong one: a weak one says nothing about bytes (RFC 9110 section 8.8.1)."""
    etag = headers.get("ETag", "")
    return etag if re.fullmatch(r'"[\x21\x23-\x7e]*"', etag) else None


def _length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("Content-Length", "")
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None
