"""One file, from whichever of its addresses gives it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from reprokit.formatting import size
from reprokit.redact import redact
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.partial import Partial
from reprokit.supply.fetch.places import Places
from reprokit.supply.fetch.progress import Tally
from reprokit.supply.fetch.transfer import Slow, Stop, Transfer
from reprokit.supply.locked_input import LockedInput

# An attempt that brings fewer bytes counts as failed, so that a server cannot keep a download busy for ever.
_LEAST = 1 << 16
_LONGEST_BACKOFF_S = 30.0


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


@dataclass
class Download:
    """Completes one partial file. `say` gets a line for each failed attempt.

    A file without sha256 and md5 is taken as the first address gives it, whatever its size.
    """

    locked: LockedInput
    partial: Partial
    places: Places
    client: Client
    stop: Stop
    tally: Tally
    say: Callable[[str], None]
    _refusals: dict[str, Refusal] = field(default_factory=dict)
    _earliest: dict[str, float] = field(default_factory=dict)
    _restarted: set[str] = field(default_factory=set)
    _furthest: int = 0
    _gained: int = 0

    def run(self) -> None:
        """Raises Unobtainable, Stopped, and OSError where the partial file cannot be written."""
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
        silent = {place: Refusal(why, again=True) for place, why in self.places.silent(self.locked).items()}
        raise Unobtainable(self.locked, silent | {redact(url): refusal for url, refusal in self._refusals.items()})

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
                self.say(f"{why}; fetching it once more from the start")
            elif refusal.again and gained >= _LEAST:
                self.say(f"{why}; continuing from {size(self.partial.offset)}")
            else:
                self.say(why)
                return False

    def _attempt(self, url: str) -> tuple[Refusal | None, int]:
        """The error of one request, None if the file is complete; and how many bytes arrived."""
        came = 0

        def count(block: int) -> None:
            nonlocal came
            came += block
            self.tally.got(block)
            self.tally.at(self.locked.key, self.locked.name, self.partial.offset)

        refusal = None
        try:
            Transfer(url, self.partial, self._size, self.client, self.stop, count).run()
            if difference := self.partial.differs(self.locked):
                refusal = Refusal(f"other bytes: {difference}", other_bytes=True)
        except Refusal as error:
            refusal = error
        self.places.report(url, refusal.why if refusal else None)
        return refusal, came

    def _begin_anew(self) -> None:
        self.partial.restart()
        self._furthest = 0
        self.tally.at(self.locked.key, self.locked.name, 0)


def place(url: str) -> str:
    """The short name of an address in messages: its host, or the path of a file."""
    parts = urlsplit(url)
    return parts.hostname or parts.path
