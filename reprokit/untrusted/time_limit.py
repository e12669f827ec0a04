"""A limit on the processor time of code that reads a stranger's text: libraries' parsers have no limit."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from reprokit.errors import UsageError

_AGAIN_S = 0.1


class _TooLong(BaseException):
    """Not an Exception, which a library may catch."""


@contextlib.contextmanager
def processor_time(seconds: float, what: str, where: str = "", hint: str = "make it shorter") -> Iterator[None]:
    """Limit the block's processor time; beyond it raise UsageError with `what` and `where`. Blocks cannot be nested.

    Only the main thread gets signals: in other threads there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    armed = True

    def stop(number: int, frame: FrameType | None) -> None:
        if armed:
            raise _TooLong

    before = signal.signal(signal.SIGPROF, stop)
    try:
        # Repeat the signal: a library may run code whose exceptions Python drops.
        signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_S)
        try:
            yield
        finally:
            armed = False
    except _TooLong:
        raise UsageError(f"{what} takes more than {seconds:g} s of processor time", where, hint) from None
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
