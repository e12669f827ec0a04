"""Ctrl-C and SIGTERM, around work that must not stop halfway."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def fatal() -> None:
    """Let Ctrl-C end the process at once: before and after its work there is nothing to clean up.

    If the process was started with Ctrl-C ignored, it stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raised() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again after `fatal`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Raise an interrupt only after the block, for work that the engine completes anyway.

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
