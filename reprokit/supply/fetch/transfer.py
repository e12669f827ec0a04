"""One request for a file, or for the rest of it, which another thread can stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reprokit.redact import redact
from reprokit.supply.fetch.answers import Body, Refusal, judge, other_size, strong_etag
from reprokit.supply.fetch.http import Answer, Client
from reprokit.supply.fetch.partial import Partial

_BLOCK = 1 << 20


class Stopped(Exception):
    """The downloads were stopped."""


class Stop:
    """Any thread may use it."""

    def __init__(self) -> None:
        self._called = threading.Event()
        self._lock = threading.Lock()
        self._reading: set[Answer] = set()

    def call(self) -> None:
        self._called.set()
        with self._lock:
            for answer in self._reading:
                answer.stop()

    def check(self) -> None:
        """Raises Stopped after `call`."""
        if self._called.is_set():
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Sleep. Raises Stopped on `call`."""
        self._called.wait(seconds)
        self.check()

    @contextmanager
    def reading(self, answer: Answer) -> Iterator[None]:
        """`call` ends the answer inside this context, which then raises Stopped."""
        with self._lock:
            self._reading.add(answer)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._reading.discard(answer)
            self.check()


class Slow(Refusal):
    """The address is slower than the minimum rate."""

    def __init__(self, rate: float, seconds: float) -> None:
        super().__init__(f"less than {rate:.0f} bytes/s for {seconds:.0f} s", again=True)


@dataclass(frozen=True)
class Transfer:
    """`size` in bytes is None if it is unknown; `count` gets the length of each block."""

    url: str
    partial: Partial
    size: int | None
    client: Client
    stop: Stop
    count: Callable[[int], None]

    def run(self) -> None:
        """Complete the partial file, continuing at its offset.

        Raises Refusal, after which bytes that can belong to the file are kept; OSError where the partial file cannot be
        written; Stopped.
        """
        scheme = urlsplit(self.url).scheme
        if scheme == "file" and self.client.settings.own.holds(self.url):
            self._copy(Path(unquote(urlsplit(self.url).path)))
        elif scheme not in ("http", "https"):
            raise Refusal(f"not an address of a file: {redact(self.url)}")
        elif not self._ask():
            self.partial.restart()
            if not self._ask():
                raise Refusal("it answers with a part of the file")

    def _ask(self) -> bool:
        """Whether the answer could be used; else the complete file must be requested."""
        partial, headers = self.partial, {}
        etag = partial.etag if partial.url == redact(self.url) else None
        # Without a checksum only a strong ETag proves that both parts are of one file.
        if partial.offset and self.size is None and etag is None:
            partial.restart()
        if partial.offset:
            headers["Range"] = f"bytes={partial.offset}-{'' if self.size is None else self.size - 1}"
            if etag:
                headers["If-Range"] = etag
        with self.client.ask(self.url, headers) as answer, self.stop.reading(answer):
            body = judge(answer.status, answer.headers, partial.offset, self.size, time.time())
            if body.do == "ask":
                return False
            if body.do == "start" and partial.offset:
                partial.restart()
            partial.came_from(self.url, strong_etag(answer.headers))
            self._read(answer, body)
        return True

    def _read(self, answer: Answer, body: Body) -> None:
        partial, settings = self.partial, self.client.settings
        size = body.total if self.size is None else self.size
        if self.size is None and (body.encoded or (size is None and not answer.chunked)):
            raise Refusal("it encodes the file" if body.encoded else "it does not state the length of the file")
        since, before = time.monotonic(), partial.offset
        try:
            while block := answer.read():
                if size is not None and partial.offset + len(block) > size:
                    raise other_size(partial.offset + len(block), size)
                partial.write(block)
                self.count(len(block))
                self.stop.check()
                lasted = time.monotonic() - since
                if lasted >= settings.slow_window_s:
                    if partial.offset - before < settings.slow_rate * lasted:
                        raise Slow(settings.slow_rate, lasted)
                    since, before = since + lasted, partial.offset
            if size is not None and partial.offset < size:
                raise Refusal(f"the connection ended {size - partial.offset} bytes early", again=True)
        except Refusal:
            if body.encoded:
                partial.restart()
            raise

    def _copy(self, path: Path) -> None:
        try:
            file = path.open("rb")
        except OSError as error:
            raise Refusal(error.strerror or str(error), gone=isinstance(error, FileNotFoundError)) from None
        with file:
            there = path.stat().st_size
            if self.size is not None and there != self.size:
                raise other_size(there, self.size)
            if self.size is None:
                self.partial.restart()
            file.seek(self.partial.offset)
            while (block := file.read(_BLOCK)) and self.partial.offset < there:
                self.partial.write(block)
                self.count(len(block))
                self.stop.check()
