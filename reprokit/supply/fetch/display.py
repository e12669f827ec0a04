"""The progress of downloads: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprokit.display import ProgressDisplay
from reprokit.formatting import clock, size
from reprokit.supply.fetch.progress import Progress

if TYPE_CHECKING:
    from rich.text import Text


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
