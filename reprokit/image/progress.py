"""A build as its user sees it: a live line on a terminal, plain lines elsewhere. Both write to the stream they get."""

from __future__ import annotations

import re
import time
from typing import IO, TYPE_CHECKING, Protocol

from reprokit.formatting import Meter, clock, size
from reprokit.image.events import Cached, Event, Note, Output, Step
from reprokit.supply.fetch.display import Plain as PlainDownloads
from reprokit.supply.fetch.display import summary
from reprokit.supply.fetch.progress import Progress
from reprokit.supply.gateway import Gateway
from reprokit.untrusted.text import console, echo

if TYPE_CHECKING:
    from rich.text import Text

_WIDTH = 100


class Display(Protocol):
    """Use as a context manager. `watch` takes a build's events, `traffic` the gateway whose bytes are shown."""

    def __enter__(self) -> Display: ...
    def __exit__(self, *_: object) -> None: ...
    def watch(self, event: Event) -> None: ...
    def traffic(self, gateway: Gateway) -> None: ...


def display(stream: IO[str]) -> Display:
    """The display that fits the stream."""
    return Live(stream) if stream.isatty() else Plain(stream)


class Plain:
    """A line for each step and note, and now and then one for the downloads."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.downloads = PlainDownloads(stream)

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def watch(self, event: Event) -> None:
        if isinstance(event, Note):
            self._line(event.text)
        elif isinstance(event, Step):
            self._line(title(event))
        elif isinstance(event, Cached):
            self._line("  cached")
        elif isinstance(event, Progress):
            self.downloads.watch(event)

    def traffic(self, gateway: Gateway) -> None:
        pass

    def _line(self, text: str) -> None:
        echo(text, file=self.stream)


class Live:
    """Steps that are done scroll by with their times; the running one stands below with its last line of output."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.live import Live as RichLive

        self.console = console(stream)
        self.started = self.step_started = time.monotonic()
        self.step: Step | None = None
        self.cached = False
        self.last = ""
        self.gateway: Gateway | None = None
        self.meter = Meter()
        self.live = RichLive(console=self.console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Live:
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def watch(self, event: Event) -> None:
        if isinstance(event, Note):
            self.last = event.text
            self.console.print(event.text)
        elif isinstance(event, Step):
            self._done()
            self.step, self.cached, self.last = event, False, ""
            self.step_started = time.monotonic()
        elif isinstance(event, Cached):
            self.cached = True
        elif isinstance(event, Output):
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
        figures = clock(now - self.started)
        if self.step:
            figures = f"{clock(now - self.step_started)} of {figures}"
        if self.gateway:
            rate = self.meter.rate(now, self.gateway.bytes_served)
            figures += f"  {size(self.gateway.bytes_served)}" + (f", {size(rate)}/s" if rate >= 1 else "")
        what = title(self.step, self._width - len(figures) - 2) if self.step else "preparing"
        text = Text(f"{what}  {figures}", style="bold", no_wrap=True, overflow="ellipsis")
        if self.last:
            text.append(f"\n  {self.last[: self._width - 2]}", style="not bold dim")
        return text


def title(step: Step, width: int = _WIDTH) -> str:
    """`[5/23] torch: RUN ...`, cut to `width` characters."""
    text = f"[{step.number}/{step.total}] {step.block}: {brief(step.text)}"
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."


def brief(instruction: str) -> str:
    """An instruction without what every RUN of ours begins with: shell options, functions, the choice of an archive."""
    text = re.sub(r"^RUN set -eu; (\w+\(\) \{.*?; \}; )+", "RUN ", instruction)
    return re.sub(r'sources="";.*?apt-get \$sources install -y --no-install-recommends', "apt-get install", text)
