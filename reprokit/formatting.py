"""Numbers as a user reads and writes them."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

LARGEST_SIZE = 1 << 50  # bytes: larger numbers overflow in engines
_SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)\s*([KMGT]?)(I?)(B?)", re.IGNORECASE)


class Meter:
    """Bytes a second over the last `window_s` seconds."""

    def __init__(self, window_s: float = 3.0) -> None:
        self.window_s = window_s
        self.samples: deque[tuple[float, int]] = deque()

    def rate(self, now: float, count: int) -> float:
        """`count` is all bytes until `now`, in seconds of a monotonic clock."""
        self.samples.append((now, count))
        while len(self.samples) > 2 and now - self.samples[0][0] > self.window_s:
            self.samples.popleft()
        (then, before) = self.samples[0]
        return (count - before) / (now - then) if now > then else 0.0


def clock(seconds: float) -> str:
    """`1:02:03` or `2:03`."""
    minutes, secs = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def counted(number: int, name: str) -> str:
    """`1 core`, `2 cores`."""
    return f"{number} {name}{'' if number == 1 else 's'}"


def size(count: float) -> str:
    """Bytes in decimal units, `1.2 GB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def binary_size(count: float) -> str:
    """Bytes in binary units, `32.0 GiB`."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def parse_size(value: Any) -> int:
    """Bytes of `8GiB`, `8g` (both by 1024, as `docker run --shm-size 8g`) or `8GB` (by 1000). Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        count = value
    else:
        match = _SIZE.fullmatch(str(value).strip())
        if match is None or (match[3] and not (match[2] and match[4])):
            raise ValueError(
                f"{str(value)[:40]!r} is not a size; write for example 8GiB or 8g (8 x 1024^3 bytes), or 8GB (8 x 10^9)"
            )
        base = 1000 if match[4] and not match[3] else 1024
        count = int(float(match[1]) * base ** " KMGT".index(match[2].upper() or " "))
    if not 0 <= count <= LARGEST_SIZE:
        raise ValueError(f"a size is from 0 to {LARGEST_SIZE >> 40} TiB")
    return count
