"""A build's progress: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import re
import time
from typing import IO, TYPE_CHECKING, Protocol

from reprokit.formatting import Meter, clock, size
from reprokit.image.events import BuildStep, Cached, Event, Note, OutputLine
from reprokit.supply.fetch.display import Plain as PlainDownloads
from reprokit.supply.fetch.display import summary
from reprokit.supply.fetch.progress import Progress
from reprokit.supply.gateway import Gateway
from reprokit.untrusted.text import console, echo

if TYPE_CHECKING:
    from rich.text import Text

_WIDTH = 100


class BuildDisplay(Protocol):
    """Use as a context manager. `progress` takes a build's events, `traffic` the gateway whose bytes are shown."""

    def __enter__(self) -> BuildDisplay: ...
    def __exit__(self, *_: object) -> None: ...
    def progress(self, event: Event) -> None: ...
    def traffic(self, gateway: Gateway) -> None: ...


def display(stream: IO[str]) -> BuildDisplay:
    """The display that fits the stream."""
    return LiveBuild(stream) if stream.isatty() else PlainBuild(stream)


class PlainBuild:
    """A line for each step and note, and sometimes one for the downloads."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.downloads = PlainDownloads(stream)

    def __enter__(self) -> PlainBuild:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def progress(self, event: Event) -> None:
        if isinstance(event, Note):
            self._line(event.text)
        elif isinstance(event, BuildStep):
            self._line(title(event))
        elif isinstance(event, Cached):
            self._line("  cached")
        elif isinstance(event, Progress):
            self.downloads.watch(event)

    def traffic(self, gateway: Gateway) -> None:
        pass

    def _line(self, text: str) -> None:
        echo(text, file=self.stream)


class LiveBuild:
    """Finished steps with their times, and below them the running one with its last line of output."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.live import Live

        self.console = console(stream)
        self.started = self.step_started = time.monotonic()
        self.step: BuildStep | None = None
        self.cached = False
        self.last = ""
        self.gateway: Gateway | None = None
        self.meter = Meter()
        self.live = Live(console=self.console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveBuild:
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def progress(self, event: Event) -> None:
        if isinstance(event, Note):
            self.last = event.text
            self.console.print(event.text)
        elif isinstance(event, BuildStep):
            self._done()
            self.step, self.cached, self.last = event, False, ""
            self.step_started = time.monotonic()
        elif isinstance(event, Cached):
            self.cached = True
        elif isinstance(event, OutputLine):
            self.last = event.line
        elif isinstance(event, Progress):
            self.last = summary(event)
        else:
            self._done()
            self.step = None

    def traffic(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def _done(self) -> None:
        if self.step:
            took = "cached" if self.cached else f"{time.monotonic() - self.step_started:.1f} s"
            line = f"{title(self.step, self._width - len(took) - 2)}  {took}"
            self.console.print(line, style="dim" if self.cached else None)

    @property
    def _width(self) -> int:
        return min(self.console.width, _WIDTH)

    def _render(self) -> Text:
        from rich.text import Text

        now = time.monotonic()
        numbers = clock(now - self.started)
        if self.step:
            numbers = f"{clock(now - self.step_started)} of {numbers}"
        if self.gateway:
            rate = self.meter.rate(now, self.gateway.bytes_served)
            numbers += f"  {size(self.gateway.bytes_served)}" + (f", {size(rate)}/s" if rate >= 1 else "")
        what = title(self.step, self._width - len(numbers) - 2) if self.step else "preparing"
        text = Text(f"{what}  {numbers}", style="bold", no_wrap=True, overflow="ellipsis")
        if self.last:
            text.append(f"\n  {self.last[: self._width - 2]}", style="not bold dim")
        return text


def title(step: BuildStep, width: int = _WIDTH) -> str:
    """`[5/23] torch: RUN ...`, cut to `width` characters."""
    text = f"[{step.number}/{step.total}] {step.block}: {brief(step.text)}"
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."


def brief(instruction: str) -> str:
    """An instruction without the boilerplate of every RUN: shell options, functions, the choice of an archive."""
    text = re.sub(r"^RUN set -eu; (\w+\(\) \{.*?; \}; )+", "RUN ", instruction)
    return re.sub(r'sources="";.*?apt-get \$sources install -y --no-install-recommends', "apt-get install", text)
