"""Calling downloads off, those that wait for a server too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from reprokit.supply.fetch.http import Answer


class Stopped(Exception):
    """The caller has called the downloads off."""


class Stop:
    """May be called from any thread."""

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
        """Raises Stopped once called off."""
        if self._called.is_set():
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Sleep. Raises Stopped as soon as called off."""
        self._called.wait(seconds)
        self.check()

    @contextmanager
    def reading(self, answer: Answer) -> Iterator[None]:
        """The answer is cut when called off inside; that ends as Stopped, whatever the cut looks like to the reader."""
        with self._lock:
            self._reading.add(answer)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._reading.discard(answer)
            self.check()
