"""Wait for work for a bounded time only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class NoAnswer(Exception):
    """A probe does not answer in time, or its answer does not end."""


class Bounded(Generic[T]):
    """Call a function once, in its own thread; several threads may wait for the result.

    A thread that hangs is abandoned; it does not keep the process alive.
    """

    def __init__(self, function: Callable[[], T], limit_s: float) -> None:
        self._function, self._limit_s = function, limit_s
        self._lock, self._done = threading.Lock(), threading.Event()
        self._deadline: float | None = None
        self._result: list[T] = []
        self._error: BaseException | None = None

    def start(self) -> None:
        """Start the thread, if it has not been started yet."""
        with self._lock:
            if self._deadline is None:
                self._deadline = time.monotonic() + self._limit_s
                threading.Thread(target=self._call, daemon=True).start()

    def result(self) -> T:
        """The function's result. Raises what the function raised, and NoAnswer at `limit_s` seconds after the start."""
        self.start()
        assert self._deadline is not None
        if not self._done.wait(max(0.0, self._deadline - time.monotonic())):
            raise NoAnswer(f"no answer within {self._limit_s:.2g} s")
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _call(self) -> None:
        try:
            self._result.append(self._function())
        except BaseException as error:
            self._error = error
        self._done.set()
