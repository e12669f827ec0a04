"""The files of a kind, served to one build over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote

from reprokit.errors import ReprokitError
from reprokit.supply.store import Store

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler


# A page, a file, or a function that makes the file at each request.
Content = bytes | Path | Callable[[], Path]


@dataclass
class Site:
    """Files at `http://KIND.reprokit.invalid/KEY/ROOT`, one set of a kind: a `kind.InputServer`.

    `contents` returns them by their paths below that address. Paths are compared as `canonical` writes them. Missing
    files are recorded by the gateway unless they are `optional`. If not `declared`, the build requests the original
    addresses instead.
    """

    kind: str
    key: str
    contents: Callable[[Store], Mapping[str, Content]]
    root: str = ""
    media_type: str = "text/plain; charset=utf-8"
    optional: Container[str] = ()
    canonical: Callable[[str], str] = str
    declared: bool = True

    @property
    def host(self) -> str:
        return f"{self.kind}.reprokit.invalid"

    @property
    def address(self) -> str:
        return f"http://{self.host}/{self.key}/{self.root}" if self.declared else ""

    def prepare(self, store: Store, scratch: Path) -> None:
        self.files = self.contents(store)

    def answer(self, handler: Handler, address: SplitResult) -> None:
        handler.discard_body()
        key, *parts = [unquote(part) for part in address.path.split("/") if part not in ("", ".")] or [""]
        path = "/".join(parts)
        if key != self.key:
            handler.refuse(404, f"another build's {self.kind}")
            return
        name = f"{path}/".removeprefix(self.root).rstrip("/")
        content = self.files.get(self.canonical(name))
        if content is None:
            if name not in self.optional:
                handler.gateway.note(handler.gateway.missing, name)
            handler.refuse(404, f"{name} is not in the lock")
        elif isinstance(content, bytes):
            handler.start(200, {"Content-Type": self.media_type, "Content-Length": str(len(content))})
            if handler.command != "HEAD":
                handler.wfile.write(content)
                handler.gateway.served(len(content))
        else:
            try:
                file = content if isinstance(content, Path) else content()
            except ReprokitError as error:
                handler.gateway.failure = error
                handler.refuse(500, error.message)
            else:
                send_file(handler, file)


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
