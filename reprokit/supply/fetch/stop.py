"""Stopping downloads that run in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopped(Exception):
    """The downloads were stopped."""


class Stop:
    """Any thread may use it."""

    def __init__(self) -> None:
        self._called = threading.Event()
        self._lock = threading.Lock()
        self._running: list[Callable[[], None]] = []

    def call(self) -> None:
        self._called.set()
        with self._lock:
            for end in self._running:
                end()

    def check(self) -> None:
        """Raises Stopped after `call`."""
        if self._called.is_set():
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Sleep. Raises Stopped on `call`."""
        self._called.wait(seconds)
        self.check()

    @contextmanager
    def ends(self, end: Callable[[], None]) -> Iterator[None]:
        """Inside this context `call` calls `end`, and the context then raises Stopped."""
        with self._lock:
            self._running.append(end)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._running.remove(end)
            self.check()
