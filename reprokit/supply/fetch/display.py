"""The progress of downloads: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import IO, TYPE_CHECKING, Protocol

from reprokit.formatting import clock, size
from reprokit.supply.fetch.progress import Progress
from reprokit.untrusted.text import console, echo

if TYPE_CHECKING:
    from rich.text import Text

_EVERY_S = 5.0


class Display(Protocol):
    """Use as a context manager. `fetch_all` calls `say` and `watch`."""

    def __enter__(self) -> Display: ...
    def __exit__(self, *_: object) -> None: ...
    def say(self, line: str) -> None: ...
    def watch(self, progress: Progress) -> None: ...


def display(stream: IO[str]) -> Display:
    """The display that fits the stream."""
    return Live(stream) if stream.isatty() else Plain(stream)


class Plain:
    """Prints messages, and every few seconds a line of progress."""

    def __init__(self, stream: IO[str], every_s: float = _EVERY_S) -> None:
        self.stream, self.every_s = stream, every_s
        self.next = time.monotonic() + every_s

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, line: str) -> None:
        echo(line, file=self.stream)

    def watch(self, progress: Progress) -> None:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + self.every_s
            self.say(summary(progress))


class Live:
    """Messages scroll; below them are progress and the current files."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.live import Live as RichLive

        self.console = console(stream)
        self.progress: Progress | None = None
        self.live = RichLive(console=self.console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Live:
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def say(self, line: str) -> None:
        self.console.print(line)

    def watch(self, progress: Progress) -> None:
        self.progress = progress

    def _render(self) -> Text:
        from rich.text import Text

        if self.progress is None:
            return Text("")
        width = self.console.width
        text = Text(summary(self.progress)[:width], style="bold", no_wrap=True, overflow="ellipsis")
        if self.progress.names:
            text.append(f"\n  {', '.join(self.progress.names)[: width - 2]}", style="not bold dim")
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
