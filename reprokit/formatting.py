"""Figures as a user reads them."""

from __future__ import annotations

from collections import deque


class Meter:
    """Bytes a second over the last `window_s` seconds."""

    def __init__(self, window_s: float = 3.0) -> None:
        self.window_s = window_s
        self.samples: deque[tuple[float, int]] = deque()

    def rate(self, now: float, count: int) -> float:
        """`count` is all bytes until `now`, in seconds of any clock that only goes forward."""
        self.samples.append((now, count))
        while len(self.samples) > 2 and now - self.samples[0][0] > self.window_s:
            self.samples.popleft()
        (then, before) = self.samples[0]
        return (count - before) / (now - then) if now > then else 0.0


def clock(seconds: float) -> str:
    """`1:02:03` or `2:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def size(count: float) -> str:
    """Bytes in decimal units, `1.2 GB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
