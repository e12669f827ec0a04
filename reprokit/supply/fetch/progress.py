"""The progress of downloads."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprokit.display import ProgressDisplay
from reprokit.formatting import Meter, clock, size

if TYPE_CHECKING:
    from rich.text import Text


_RATE_WINDOW_S = 10.0


@dataclass(frozen=True)
class Progress:
    """Bytes of earlier runs count as done; a restarted file subtracts its bytes.

    `rate` is bytes a second over the last seconds, `left_s` the remaining seconds at that rate, None if unknown.
    `names` are the current files, the oldest first.
    """

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int
    rate: float
    left_s: float | None
    names: tuple[str, ...]


class Tally:
    """Counts for all download threads."""

    def __init__(self, files: int, size: int) -> None:
        """`size` in bytes is that of all `files`."""
        self.files, self.size = files, size
        self.received = 0
        self._done_files = self._done_bytes = 0
        self._under_way: dict[str, tuple[str, int]] = {}
        self._meter = Meter(_RATE_WINDOW_S)
        self._lock = threading.Lock()

    def at(self, sha256: str, name: str, offset: int) -> None:
        """A file has `offset` bytes."""
        with self._lock:
            self._under_way[sha256] = (name, offset)

    def got(self, count: int) -> None:
        """`count` bytes were received."""
        with self._lock:
            self.received += count

    def left(self, sha256: str) -> None:
        """A file failed, or another process fetches it."""
        with self._lock:
            self._under_way.pop(sha256, None)

    def done(self, sha256: str, size: int) -> None:
        with self._lock:
            self._under_way.pop(sha256, None)
            self._done_files += 1
            self._done_bytes += size

    def progress(self, now: float) -> Progress:
        """`now` in seconds of a clock that only goes forward."""
        with self._lock:
            under_way = list(self._under_way.values())
            rate = self._meter.rate(now, self.received)
            measured = now - self._meter.samples[0][0] >= 2
            done = self._done_bytes + sum(offset for _, offset in under_way)
            left_s = (self.size - done) / rate if rate > 0 and measured else None
            names = tuple(name for name, _ in under_way)
            return Progress(self._done_files, self.files, done, self.size, rate, left_s, names)


class FetchDisplay(ProgressDisplay):
    """Messages, and below them progress and the current files. `fetch_all` calls `on_progress`."""

    _progress: Progress | None = None

    def on_progress(self, progress: Progress) -> None:
        self._progress = progress
        self.often("downloads", summary(progress))

    def render(self) -> Text:
        from rich.text import Text

        if self._progress is None:
            return Text("")
        text = Text(summary(self._progress)[: self.width], style="bold", no_wrap=True, overflow="ellipsis")
        if self._progress.names:
            text.append(f"\n  {', '.join(self._progress.names)[: self.width - 2]}", style="not bold dim")
        return text


def summary(progress: Progress) -> str:
    """`12 of 500 files, 1.2 GB of 3.4 GB, 45 MB/s, 0:48 left`."""
    parts = [
        f"{progress.files_done} of {progress.files_total} files",
        f"{size(progress.bytes_done)} of {size(progress.bytes_total)}",
    ]
    if progress.rate >= 1:
        parts.append(f"{size(progress.rate)}/s")
    if progress.left_s is not None:
        parts.append(f"{clock(progress.left_s)} left")
    return ", ".join(parts)
