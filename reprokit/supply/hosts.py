"""Hosts that fail: those that this command cannot reach, and those that failed recently in any command."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from reprokit.supply.store import Store

_FAILURES = 2  # one may be an accident
_PATIENCE_S = 10.0  # a host that has answered may be restarting
_LOST_S = 300.0  # a build may last for hours, and the network may come back
_MOST = 10_000  # hosts; a build chooses the names that it requests
_PORTS = {"http": 80, "https": 443}
_REMEMBERED = "mirrors"
_BACK_OFF_S = 3600


class LostHosts:
    """Hosts to which no connection is possible: the name does not resolve, or the host refuses or does not answer.

    A host is lost after two failures in a row. If it has answered before, the failures must also go on for 10 s. A lost
    host gets no request for 5 minutes. Threads may share it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answered: set[str] = set()
        self._failing: dict[str, tuple[int, float, str]] = {}
        self._lost: dict[str, tuple[str, float]] = {}

    def answered(self, url: str) -> None:
        host = _host(url)
        with self._lock:
            self._failing.pop(host, None)
            if len(self._answered) < _MOST:
                self._answered.add(host)

    def failed(self, url: str, why: str) -> None:
        """Record one connection that failed."""
        host, now = _host(url), self._clock()
        with self._lock:
            count, since, _ = self._failing.get(host, (0, now, ""))
            if host in self._failing or len(self._failing) < _MOST:
                self._failing[host] = (count + 1, since, why)
            if count + 1 >= _FAILURES and (host not in self._answered or now - since >= _PATIENCE_S):
                self._lost[host] = (why, now)

    def lose(self, url: str, why: str) -> None:
        """Record a host that another program could not reach several times."""
        with self._lock:
            self._lost[_host(url)] = (why, self._clock())

    def why(self, url: str) -> str:
        """Why the host of this address is lost; empty if it is not."""
        if not self._lost:
            return ""
        host = _host(url)
        with self._lock:
            why, since = self._lost.get(host, ("", 0.0))
            if why and self._clock() - since >= _LOST_S:
                del self._lost[host]
                self._failing.pop(host, None)
                return ""
        return why

    def has_answered(self, url: str) -> bool:
        return _host(url) in self._answered

    def last_failure(self, url: str) -> str:
        """Why the last connection failed; empty if the host has answered since."""
        return self._failing.get(_host(url), (0, 0.0, ""))[2]


def listed(failures: Mapping[str, str]) -> str:
    """Hosts and why each failed, in words; each reason once."""
    by_reason: dict[str, list[str]] = {}
    for host, why in failures.items():
        by_reason.setdefault(why, []).append(host)
    return "; ".join(f"{', '.join(hosts)}: {why}" for why, hosts in by_reason.items())


def _host(url: str) -> str:
    """`HOST:PORT`; the text itself if it is no address."""
    try:
        address = urlsplit(url)
        return f"{address.hostname}:{address.port or _PORTS.get(address.scheme, 0)}"
    except ValueError:
        return url


class FailingHosts:
    """The recent failures of each host, kept in the store's index. Threads and processes may share them.

    A host that failed twice is in back-off for an hour.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._failures: dict[str, tuple[int, float]] = {}

    def report(self, url: str, error: str | None) -> None:
        """Record that the address's host failed, or with None that it works."""
        if url.startswith("file:"):
            return
        host, now = _server(url), self._clock()
        with self._lock:
            failures, _ = before = self._recent(host)
            after = (0, 0.0) if error is None else (failures + 1, now)
            if after[0] == before[0] or before[0] >= _FAILURES < after[0]:
                return
            self._failures[host] = after
            self._store.remember(_REMEMBERED, quote(host, safe=""), {"failures": after[0], "at": after[1]})

    def order(self, urls: Iterable[str]) -> list[str]:
        """The same addresses, each once, those of hosts in back-off last."""
        return sorted(dict.fromkeys(urls), key=self.in_back_off)

    def in_back_off(self, url: str) -> bool:
        if url.startswith("file:"):
            return False
        with self._lock:
            return self._recent(_server(url))[0] >= _FAILURES

    def _recent(self, host: str) -> tuple[int, float]:
        """Number of failures within the last hour, and the time of the latest."""
        if host not in self._failures:
            self._failures[host] = self._read(host)
        failures, at = self._failures[host]
        return (failures, at) if self._clock() - at < _BACK_OFF_S else (0, 0.0)

    def _read(self, host: str) -> tuple[int, float]:
        kept = self._store.remembered(_REMEMBERED, quote(host, safe=""))
        try:
            return int(kept["failures"]), float(kept["at"])
        except (TypeError, ValueError, LookupError):  # nothing, or written by another version
            return 0, 0.0


def _server(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2].lower()
