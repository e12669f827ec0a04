"""Hosts that failed rest for an hour: they are asked last. Among the others the user's order stands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from urllib.parse import quote, urlsplit

from reprokit.supply.store import Store

_KIND = "mirrors"
_REST_S = 3600
_FAILURES = 2  # one may be an accident


class Rest:
    """The recent failures of each host, kept in the store's index. Threads and processes may share them."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, float]] = {}

    def report(self, url: str, error: str | None) -> None:
        """Record that the address's host failed, or with None that it works."""
        if url.startswith("file:"):
            return
        host, now = _host(url), self._clock()
        with self._lock:
            failures, _ = before = self._recent(host)
            after = (0, 0.0) if error is None else (failures + 1, now)
            if after[0] == before[0] or before[0] >= _FAILURES < after[0]:
                return
            self._known[host] = after
            self._store.remember(_KIND, quote(host, safe=""), {"failures": after[0], "at": after[1]})

    def order(self, urls: Iterable[str]) -> list[str]:
        """The same addresses, each once, those of resting hosts last."""
        return sorted(dict.fromkeys(urls), key=self.resting)

    def resting(self, url: str) -> bool:
        if url.startswith("file:"):
            return False
        with self._lock:
            return self._recent(_host(url))[0] >= _FAILURES

    def _recent(self, host: str) -> tuple[int, float]:
        """Number of failures within the last hour, and the time of the latest."""
        if host not in self._known:
            self._known[host] = self._read(host)
        failures, at = self._known[host]
        return (failures, at) if self._clock() - at < _REST_S else (0, 0.0)

    def _read(self, host: str) -> tuple[int, float]:
        kept = self._store.remembered(_KIND, quote(host, safe=""))
        try:
            return int(kept["failures"]), float(kept["at"])
        except (TypeError, ValueError, LookupError):  # nothing, or written by another version
            return 0, 0.0


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2].lower()
