"""What was measured of the places that files come from, and the order that follows: dead and slow ones last."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from urllib.parse import quote, urlsplit

from reprokit.supply.store import Store

_KIND = "mirrors"
_KEPT_S = 86400
_DEAD_S = 3600
_DEAD_AFTER = 2
_MUCH_SLOWER = 4
# bytes/s that a place which nobody has measured is taken to have: below a quarter of it the next one is worth a try.
_UNKNOWN_RATE = 100e3
# A rate of less than this says more about the handshake than about the place.
_ENOUGH_BYTES = 1 << 20
_MEMORY_S = 120
_WRITE_EVERY_S = 5


@dataclass(frozen=True)
class Measure:
    """Of one host: `bytes` that took `seconds` of connections, failures since the last success, times of the epoch."""

    bytes: int = 0
    seconds: float = 0.0
    failures: int = 0
    failed_at: float = 0.0
    at: float = 0.0

    @property
    def rate(self) -> float | None:
        """bytes/s of one connection, None where too little came to tell."""
        return self.bytes / self.seconds if self.bytes >= _ENOUGH_BYTES and self.seconds else None

    def dead(self, now: float) -> bool:
        return self.failures >= _DEAD_AFTER and now - self.failed_at < _DEAD_S

    def after(self, bytes: int, seconds: float, error: str | None, now: float) -> Measure:
        """With one more report, in which what is long ago counts less and less."""
        old = replace(self, bytes=self.bytes // 2, seconds=self.seconds / 2) if self.seconds > _MEMORY_S else self
        known = replace(old, bytes=old.bytes + bytes, seconds=old.seconds + seconds, at=now)
        if error is None:
            return replace(known, failures=0)
        return replace(known, failures=known.failures + 1, failed_at=now)


def ordered(urls: Iterable[str], measure_of: Callable[[str], Measure], now: float) -> list[str]:
    """The same addresses, each once; those of dead hosts last, those of much slower ones before them.

    Within each group the order stays. What is on this machine (`file://`) is neither.
    """
    each = list(dict.fromkeys(urls))
    measures = {url: measure_of(url) for url in each if not url.startswith("file:")}
    living = [m for m in measures.values() if not m.dead(now)]
    best = max((m.rate or _UNKNOWN_RATE for m in living), default=0.0)

    def rank(url: str) -> int:
        measure = measures.get(url)
        if measure is None:
            return 0
        if measure.dead(now):
            return 2
        return int(measure.rate is not None and measure.rate * _MUCH_SLOWER < best)

    return sorted(each, key=rank)


class Measures:
    """The measures of all hosts, kept in the store's index for a day; threads and processes may share them."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._known: dict[str, Measure] = {}
        self._written: dict[str, float] = {}

    def of(self, url: str) -> Measure:
        """That of the address's host."""
        host = _host(url)
        with self._lock:
            if host not in self._known:
                self._known[host] = self._read(host)
            return self._known[host]

    def report(self, url: str, bytes: int, seconds: float, error: str | None) -> None:
        """Take one transfer in; `error` says that the place is at fault, None that it served."""
        if url.startswith("file:"):
            return
        before, host, now = self.of(url), _host(url), self._clock()
        with self._lock:
            measure = self._known[host] = self._known[host].after(bytes, seconds, error, now)
            # 20 000 small files are not 20 000 writes.
            if now - self._written.get(host, 0) < _WRITE_EVERY_S and measure.dead(now) == before.dead(now):
                return
            self._written[host] = now
        self._store.remember(_KIND, quote(host, safe=""), asdict(measure))

    def order(self, urls: Iterable[str]) -> list[str]:
        """See `ordered`."""
        return ordered(urls, self.of, self._clock())

    def _read(self, host: str) -> Measure:
        try:
            measure = Measure(**self._store.remembered(_KIND, quote(host, safe="")))
        except TypeError:  # nothing, or what another version kept
            return Measure()
        return measure if self._clock() - measure.at < _KEPT_S else Measure()


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2].lower()
