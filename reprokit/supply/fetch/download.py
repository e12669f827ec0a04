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
from reprokit.supply.fetch.stop import Stop
from reprokit.supply.fetch.transfer import Slow, Transfer
from reprokit.supply.locked_input import LockedInput

GAIN = 1 << 16  # bytes; less is no reason to ask the same address again at once
_LONGEST_BACKOFF_S = 30.0


class Unobtainable(Exception):
    """No address gave the file. `refusals` has the last word of each, addresses without credentials."""

    def __init__(self, want: LockedInput, refusals: dict[str, Refusal]) -> None:
        super().__init__(want.name)
        self.want = want
        self.refusals = refusals

    @property
    def gone(self) -> bool:
        """Whether each address says that it has no such file (any more)."""
        return bool(self.refusals) and all(refusal.gone for refusal in self.refusals.values())

    @property
    def changed(self) -> bool:
        """Whether an address has other bytes under this name."""
        return any(refusal.other_bytes for refusal in self.refusals.values())


@dataclass
class Bring:
    """Brings one partial file to the bytes that are wanted. `say` gets a line for each address left or gone on with."""

    want: LockedInput
    partial: Partial
    places: Places
    client: Client
    stop: Stop
    tally: Tally
    say: Callable[[str], None]
    _refusals: dict[str, Refusal] = field(default_factory=dict)
    _earliest: dict[str, float] = field(default_factory=dict)
    _fetched_anew: set[str] = field(default_factory=set)
    _furthest: int = 0
    _gained: int = 0

    def run(self) -> None:
        """Raises Unobtainable, Stopped, and OSError where the partial file cannot be written."""
        self._furthest = self.partial.offset
        if self.partial.offset == self.want.size:
            if self.partial.sha256 == self.want.sha256:
                return
            self._begin_anew()
        settings = self.client.settings
        urls: list[str] = []
        for url in self.places.urls(self.want):
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
            idle, before = (1 if self._gained - before >= GAIN else idle + 1), self._gained
        silent = {place: Refusal(why, again=True) for place, why in self.places.silent(self.want).items()}
        raise Unobtainable(self.want, silent | {redact(url): refusal for url, refusal in self._refusals.items()})

    def _from(self, url: str) -> bool:
        """Try one address for as long as it brings the file on."""
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
            why = f"{self.want.name}: {place(url)}: {refusal.why}"
            mismatch = refusal.other_bytes and came > 0
            if mismatch:
                self._begin_anew()
            if mismatch and url not in self._fetched_anew:
                self._fetched_anew.add(url)
                self.say(f"{why}; fetching it once more from the start")
            elif refusal.again and gained >= GAIN:
                self.say(f"{why}; going on from {size(self.partial.offset)}")
            else:
                self.say(why)
                return False

    def _attempt(self, url: str) -> tuple[Refusal | None, int]:
        """Why the address did not give the file, None if it did; and how many bytes came."""
        came = 0

        def count(block: int) -> None:
            nonlocal came
            came += block
            self.tally.got(block)
            self.tally.at(self.want.sha256, self.want.name, self.partial.offset)

        refusal = None
        try:
            Transfer(url, self.partial, self.want.size, self.client, self.stop, count).run()
            if self.partial.sha256 != self.want.sha256:
                why = f"other bytes: expected sha256 {self.want.sha256}, got {self.partial.sha256}"
                refusal = Refusal(why, other_bytes=True)
        except Refusal as error:
            refusal = error
        self.places.report(url, refusal.why if refusal else None)
        return refusal, came

    def _begin_anew(self) -> None:
        self.partial.restart()
        self._furthest = 0
        self.tally.at(self.want.sha256, self.want.name, 0)


def place(url: str) -> str:
    """What a line calls an address: its host, or the path of a file."""
    parts = urlsplit(url)
    return parts.hostname or parts.path
