"""How to use an HTTP answer for a new or continued download: decisions on status and headers."""

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

    `again`: a retry may help, after `wait_s` if the server asks for that. `gone`: the server has no such file.
    `other_bytes`: it has another file under this name. `unreachable`: there was no connection to the server.
    """

    def __init__(
        self,
        why: str,
        again: bool = False,
        wait_s: float | None = None,
        gone: bool = False,
        other_bytes: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(why)
        self.why = why
        self.again = again
        self.wait_s = wait_s
        self.gone = gone
        self.other_bytes = other_bytes
        self.unreachable = unreachable


@dataclass(frozen=True)
class Body:
    """How to use the body: `append` it at the offset, `start` with it, or drop it and `ask` for the complete file.

    `total` is the file's size in bytes if the answer states it. An `encoded` body is never continued.
    """

    do: Literal["append", "start", "ask"]
    total: int | None = None
    encoded: bool = False


def judge(status: int, headers: Mapping[str, str], offset: int, size: int | None, now: float) -> Body:
    """How to use the answer to a request for the bytes from `offset` on; `size` is the file's if known.

    `now` is the time since the epoch in seconds. Raises Refusal. Only a 206 at exactly this offset of a file of exactly
    this size is appended: other tools have corrupted files with a 200 (rust-lang/rustup #4710) and with a 206 at
    another offset (containers/ramalama PR #2917).
    """
    encoding = headers.get("Content-Encoding", "identity").lower()
    encoded = encoding not in ("identity", "")
    if status == 200:
        total = _length(headers)
        if size is not None and total is not None and total != size:
            # With the right size it may still be the file: some servers call every .gz encoded. The hash decides.
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
    """Seconds from `now` of a Retry-After header (RFC 9110 section 10.2.3), None for an invalid one."""
    if seconds := re.fullmatch(r"\s*([0-9]{1,9})\s*", value):
        return float(seconds[1])
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.fromtimestamp(now, timezone.utc)).total_seconds())


def strong_etag(headers: Mapping[str, str]) -> str | None:
    """The ETag if it is strong: a weak one does not identify bytes (RFC 9110 section 8.8.1)."""
    etag = headers.get("ETag", "")
    return etag if re.fullmatch(r'"[\x21\x23-\x7e]*"', etag) else None


def _length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("Content-Length", "")
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None
