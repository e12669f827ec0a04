"""Ctrl-C and SIGTERM, around work that must not stop halfway."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred() -> Iterator[None]:
    """Raise an interrupt of the block after it, for work that the engine would complete unseen anyway.

    Python interrupts the main thread only; in any other this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []
    before = {number: signal.signal(number, lambda number, _: seen.append(number)) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if seen:
            signal.raise_signal(seen[0])
