"""The progress of downloads: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from reprokit.formatting import clock, size
from reprokit.supply.fetch.progress import Progress
from reprokit.untrusted.text import console, echo

if TYPE_CHECKING:
    from rich.text import Text

_EVERY_S = 5.0


@contextmanager
def display(stream: IO[str]) -> Iterator[Plain]:
    """The display that fits the stream. `fetch_all` calls its `notify` and `on_progress`."""
    if not stream.isatty():
        yield Plain(stream)
        return
    from rich.live import Live as RichLive

    shown = Live(stream)
    with RichLive(console=shown.console, get_renderable=shown.render, refresh_per_second=4, transient=True):
        yield shown


class Plain:
    """Prints messages, and every few seconds a line of progress."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.next = time.monotonic() + _EVERY_S

    def notify(self, line: str) -> None:
        echo(line, file=self.stream)

    def on_progress(self, progress: Progress) -> None:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + _EVERY_S
            self.notify(summary(progress))


class Live(Plain):
    """Messages scroll; below them are progress and the current files."""

    progress: Progress | None = None

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self.console = console(stream)

    def notify(self, line: str) -> None:
        self.console.print(line)

    def on_progress(self, progress: Progress) -> None:
        self.progress = progress

    def render(self) -> Text:
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
