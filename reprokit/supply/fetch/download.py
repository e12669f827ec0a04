"""One file, from whichever of its addresses gives it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reprokit.display import notify
from reprokit.formatting import size
from reprokit.redact import redact
from reprokit.supply.fetch.answers import Body, Refusal, judge, other_size, strong_etag
from reprokit.supply.fetch.http import Answer, Client
from reprokit.supply.fetch.partial import Partial
from reprokit.supply.fetch.places import Places
from reprokit.supply.fetch.progress import Tally
from reprokit.supply.fetch.stop import Stop
from reprokit.supply.locked_input import LockedInput

# An attempt that brings fewer bytes counts as failed, so that a server cannot keep a download busy for ever.
_LEAST = 1 << 16
_LONGEST_BACKOFF_S = 30.0
_BLOCK = 1 << 20


class Slow(Refusal):
    """The address is slower than the minimum rate."""

    def __init__(self, rate: float, seconds: float) -> None:
        super().__init__(f"less than {rate:.0f} bytes/s for {seconds:.0f} s", again=True)


class Unobtainable(Exception):
    """No address gave the file. `refusals` has the last error of each address, without credentials."""

    def __init__(self, locked: LockedInput, refusals: dict[str, Refusal]) -> None:
        super().__init__(locked.name)
        self.locked = locked
        self.refusals = refusals

    @property
    def changed(self) -> bool:
        """Whether an address has other bytes under this name."""
        return any(refusal.other_bytes for refusal in self.refusals.values())

    @property
    def unreachable(self) -> bool:
        """Whether there are addresses, and no connection to any of them."""
        return bool(self.refusals) and all(refusal.unreachable for refusal in self.refusals.values())


@dataclass
class Download:
    """Completes one partial file. Reports each failed attempt of a host that could be reached.

    A file without any checksum is accepted as the first address serves it, whatever its size.
    """

    locked: LockedInput
    partial: Partial
    places: Places
    client: Client
    stop: Stop
    tally: Tally
    _refusals: dict[str, Refusal] = field(default_factory=dict)
    _earliest: dict[str, float] = field(default_factory=dict)
    _restarted: set[str] = field(default_factory=set)
    _furthest: int = 0
    _gained: int = 0
    _came: int = 0

    def run(self) -> None:
        """Raises Unobtainable, Stopped, and OSError if the partial file cannot be written."""
        self._furthest = self.partial.offset
        if self._size is not None and self.partial.offset == self._size:
            if not self.partial.differs(self.locked):
                return
            self._begin_anew()
        settings = self.client.settings
        urls: list[str] = []
        for url in self.places.urls(self.locked):
            if url in self._refusals:
                continue
            if self._from(url):
                return
            urls.append(url)
        idle, before = 1, self._gained
        while idle < settings.attempts:
            urls = [url for url in urls if self._refusals[url].again]
            if not urls:
                break
            pause = min(settings.backoff_s * 2 ** (idle - 1), _LONGEST_BACKOFF_S)
            for url in sorted(urls, key=lambda url: self._earliest.get(url, 0.0)):
                self.stop.wait(max(pause, self._earliest.get(url, 0.0) - time.monotonic()))
                if self._from(url):
                    return
                pause = 0.0
            idle, before = (1 if self._gained - before >= _LEAST else idle + 1), self._gained
        lost = settings.lost
        silent = {
            source: Refusal(why, again=True, unreachable=bool(lost.why(source)))
            for source, why in self.places.silent(self.locked).items()
        }
        raise Unobtainable(self.locked, silent | {redact(url): refusal for url, refusal in self._refusals.items()})

    @property
    def lost(self) -> dict[str, str]:
        """The hosts that could not be reached, and why."""
        return {place(url): refusal.why for url, refusal in self._refusals.items() if refusal.unreachable}

    @property
    def _size(self) -> int | None:
        return self.locked.size if self.locked.sha256 or self.locked.md5 else None

    def _from(self, url: str) -> bool:
        """Try one address for as long as it gives more bytes."""
        while True:
            refusal, came = self._attempt(url)
            if refusal is None:
                return True
            self._refusals[url] = refusal
            if refusal.wait_s is not None:
                wait = min(refusal.wait_s, self.client.settings.longest_wait_s)
                self._earliest[url] = time.monotonic() + wait
            gained = 0 if isinstance(refusal, Slow) else max(0, self.partial.offset - self._furthest)
            self._gained += gained
            self._furthest = max(self._furthest, self.partial.offset)
            why = f"{self.locked.name}: {place(url)}: {refusal.why}"
            mismatch = refusal.other_bytes and came > 0
            if mismatch:
                self._begin_anew()
            if mismatch and url not in self._restarted:
                self._restarted.add(url)
                notify(f"{why}; fetching it once more from the start")
            elif refusal.again and gained >= _LEAST:
                notify(f"{why}; continuing from {size(self.partial.offset)}")
            else:
                if not refusal.unreachable:
                    notify(why)
                return False

    def _attempt(self, url: str) -> tuple[Refusal | None, int]:
        """The error of one request, None if the file is complete; and how many bytes arrived.

        Bytes that can belong to the file are kept. Raises OSError if the partial file cannot be written; Stopped.
        """
        self._came = 0
        refusal = None
        try:
            self._transfer(url)
            if difference := self.partial.differs(self.locked):
                refusal = Refusal(f"other bytes: {difference}", other_bytes=True)
        except Refusal as error:
            refusal = error
        self.places.report(url, refusal.why if refusal else None)
        return refusal, self._came

    def _transfer(self, url: str) -> None:
        """Complete the partial file from this address, continuing at its offset. Raises Refusal."""
        parts = urlsplit(url)
        if parts.scheme == "file" and self.client.settings.own.holds(url):
            self._copy(Path(unquote(parts.path)))
        elif parts.scheme not in ("http", "https"):
            raise Refusal(f"not an address of a file: {redact(url)}")
        elif not self._ask(url):
            self.partial.restart()
            if not self._ask(url):
                raise Refusal("it answers with a part of the file")

    def _ask(self, url: str) -> bool:
        """Whether the answer could be used; else the complete file must be requested."""
        partial, headers = self.partial, {}
        etag = partial.etag if partial.url == redact(url) else None
        # Without a checksum only a strong ETag proves that both parts are of one file.
        if partial.offset and self._size is None and etag is None:
            partial.restart()
        if partial.offset:
            headers["Range"] = f"bytes={partial.offset}-{'' if self._size is None else self._size - 1}"
            if etag:
                headers["If-Range"] = etag
        with self.client.ask(url, headers) as answer, self.stop.ends(answer.stop):
            body = judge(answer.status, answer.headers, partial.offset, self._size, time.time())
            if body.do == "ask":
                return False
            if body.do == "start" and partial.offset:
                partial.restart()
            partial.came_from(url, strong_etag(answer.headers))
            self._read(answer, body)
        return True

    def _read(self, answer: Answer, body: Body) -> None:
        partial, settings = self.partial, self.client.settings
        size = body.total if self._size is None else self._size
        if self._size is None and (body.encoded or (size is None and not answer.chunked)):
            raise Refusal("it encodes the file" if body.encoded else "it does not state the length of the file")
        since, before = time.monotonic(), partial.offset
        try:
            while block := answer.read():
                if size is not None and partial.offset + len(block) > size:
                    raise other_size(partial.offset + len(block), size)
                self._write(block)
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
            if self._size is not None and there != self._size:
                raise other_size(there, self._size)
            if self._size is None:
                self.partial.restart()
            file.seek(self.partial.offset)
            while (block := file.read(_BLOCK)) and self.partial.offset < there:
                self._write(block)

    def _write(self, block: bytes) -> None:
        self.partial.write(block)
        self._came += len(block)
        self.tally.got(len(block))
        self.tally.at(self.locked.key, self.locked.name, self.partial.offset)
        self.stop.check()

    def _begin_anew(self) -> None:
        self.partial.restart()
        self._furthest = 0
        self.tally.at(self.locked.key, self.locked.name, 0)


def place(url: str) -> str:
    """The short name of an address in messages: its host, or the path of a file."""
    parts = urlsplit(url)
    return parts.hostname or parts.path
