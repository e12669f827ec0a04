"""Progress on a stream: lines, and on a terminal a redrawn part below them."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, TypeVar

from reprokit.formatting import clock, size
from reprokit.redact import redact
from reprokit.untrusted.terminal import console, echo

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

# Reports bytes done and total.
ByteProgress = Callable[[int, int], None]

# A line that replaces the last one: `x: receiving objects 40 %`, `pulled 3 layers`, `x: 5 of 9 files done`.
_SO_FAR = re.compile(r"\b\d+ %|^pulled \d+ layers|\b\d+ of \d+ files done")

D = TypeVar("D", bound="ProgressDisplay")
_EVERY_S = 5.0
# The innermost is the last. Threads share them with the terminal; a ContextVar would be unset in threads.
_reporters: list[Callable[[str], None]] = []
_displays: list[Callable[[str], None]] = []


def notify(*lines: str) -> None:
    """Report lines, without credentials: to the innermost reporter, else to the display, else on standard error."""
    for line in map(redact, lines):
        if taken := _reporters or _displays:
            taken[-1](line)
        else:
            echo(line, err=True)


@contextmanager
def reporting(reporter: Callable[[str], None]) -> Iterator[None]:
    """Pass reports in the block, one line a call, to `reporter`; threads may call it. No progress is shown."""
    _reporters.append(reporter)
    try:
        yield
    finally:
        _reporters.remove(reporter)


class ProgressDisplay:
    """A context manager. Subclasses define `render`, the part that is redrawn on a terminal."""

    def __init__(self, stream: IO[str], every_s: float = _EVERY_S) -> None:
        self._stream, self._every_s = stream, every_s
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._printed: dict[str, tuple[str, float]] = {}
        self._console = console(stream) if stream.isatty() and not _reporters else None
        self._live: Live | None = None

    def __enter__(self: D) -> D:
        if self._console:
            from rich.live import Live

            self._live = Live(console=self._console, get_renderable=self.render, refresh_per_second=4, transient=True)
            self._live.start()
        _displays.append(self.notify)
        return self

    def __exit__(self, *_: object) -> None:
        _displays.remove(self.notify)
        if self._live:
            self._live.stop()

    @property
    def width(self) -> int:
        """The width of the terminal, 0 if there is none."""
        return self._console.width if self._console else 0

    def notify(self, line: str, style: str | None = None) -> None:
        """Print a line; on a terminal above the part that is redrawn."""
        if _reporters:
            _reporters[-1](line)
        elif self._console:
            self._console.print(line, style=style)
        else:
            echo(line, file=self._stream)

    def often(self, name: str, line: str, state: str = "") -> None:
        """Without a terminal, print a line if its `state` changes, else every few seconds."""
        now = time.monotonic()
        with self._lock:
            before, when = self._printed.get(name, ("", self._began))
            if self._console or (state == before and now - when < self._every_s):
                return
            self._printed[name] = (state, now)
            ProgressDisplay.notify(self, line)

    def render(self) -> Text:
        raise NotImplementedError


class ClockDisplay(ProgressDisplay):
    """A text after the elapsed time and, if known, the expected time."""

    def __init__(self, stream: IO[str], text: str, expected_s: float = 0.0) -> None:
        super().__init__(stream)
        self._text, self._expected_s = text, expected_s

    def render(self) -> Text:
        from rich.text import Text

        took = clock(time.monotonic() - self._began)
        of = f" of about {clock(self._expected_s)}" if self._expected_s else ""
        return Text(f"{took}{of}  {self._text}", "bold", no_wrap=True, overflow="ellipsis")


class StepDisplay(ProgressDisplay):
    """Notices, and below them the running step with its progress and elapsed time."""

    def __init__(self, stream: IO[str], every_s: float = _EVERY_S) -> None:
        super().__init__(stream, every_s)
        self._step, self._so_far, self._step_began = "", "", self._began

    def notify(self, line: str, style: str | None = None) -> None:
        if _SO_FAR.search(line):
            self._so_far = line
            self.often(line.partition(":")[0], line)
            return
        super().notify(line, style)
        self._step, self._so_far, self._step_began = line, "", time.monotonic()

    def render(self) -> Text:
        from rich.text import Text

        took = clock(time.monotonic() - self._step_began)
        return Text(f"{self._so_far or self._step}  {took}", "bold", no_wrap=True, overflow="ellipsis")


@contextmanager
def progress(text: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for bytes done and total: it shows a bar, or without a terminal a line every few seconds."""
    if _reporters or not sys.stderr.isatty():
        last = [time.monotonic()]

        def line(done: int, total: int) -> None:
            if time.monotonic() - last[0] > _EVERY_S:
                last[0] = time.monotonic()
                notify(f"{text}: {size(done)} of {size(total)}")

        yield line
        return
    from rich import progress as rich

    columns = (rich.TextColumn("{task.description}", markup=False), rich.BarColumn(), rich.DownloadColumn())
    rate = (rich.TransferSpeedColumn(), rich.TimeRemainingColumn())
    with rich.Progress(*columns, *rate, console=console(sys.stderr), transient=True) as shown:
        task = shown.add_task(text, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


@contextmanager
def status(text: str, expected_s: float = 0.0) -> Iterator[None]:
    """Show `text` with a clock and, if known, the expected time; without a terminal as a plain line."""
    with ClockDisplay(sys.stderr, text, expected_s) as shown:
        if not shown.width:
            notify(text)
        yield
