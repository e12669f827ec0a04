"""Answers with pages, and with files of the store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler


def send_page(handler: Handler, body: bytes, kind: str) -> None:
    """Answer with a body of the media type `kind`."""
    handler.start(200, {"Content-Type": kind, "Content-Length": str(len(body))})
    if handler.command != "HEAD":
        handler.wfile.write(body)
        handler.gateway.served(len(body))


def send_file(handler: Handler, path: Path) -> None:
    """Answer with a file, or with the one requested range of it (RFC 9110 section 14).

    `If-Range` is ignored, as the content of an address never changes.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        requested = span(handler.headers.get("Range", ""), size)
        if requested is None:
            handler.refuse(416, "no such range", {"Content-Range": f"bytes */{size}"})
            return
        first, end = requested
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(end - first)}
        headers["Accept-Ranges"] = "bytes"
        partial = requested != (0, size)
        if partial:
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
        handler.start(206 if partial else 200, headers)
        if handler.command != "HEAD" and size:
            handler.connection.sendfile(file, first, end - first)
            handler.gateway.served(end - first)


def span(requested: str, size: int) -> tuple[int, int] | None:
    """First byte and end of a `Range` header in a file of `size` bytes; None for a range outside.

    Missing, multiple and invalid ranges mean the complete file: a server may ignore them.
    """
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", requested.strip())
    if match is None or not (match[1] or match[2]):
        return 0, size
    if not match[1]:
        return (max(0, size - int(match[2])), size) if int(match[2]) and size else None
    first, end = int(match[1]), min(int(match[2]) + 1, size) if match[2] else size
    if match[2] and int(match[2]) < first:
        return 0, size
    return (first, end) if first < size else None
