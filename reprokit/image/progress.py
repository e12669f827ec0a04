"""A build's progress: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import IO, TYPE_CHECKING

from reprokit.display import ProgressDisplay
from reprokit.formatting import Meter, clock, size
from reprokit.image.events import BuildStep, Cached, Event, Note, OutputLine
from reprokit.image.shell import without_boilerplate
from reprokit.supply.fetch.display import summary
from reprokit.supply.fetch.progress import Progress
from reprokit.supply.gateway import Gateway

if TYPE_CHECKING:
    from rich.text import Text

_WIDTH = 80
# Instructions that take no time and do nothing to the files: they are in the log only.
_SETTINGS = ("ARG", "ENV", "FROM", "LABEL", "SHELL", "USER", "WORKDIR")


class BuildDisplay(ProgressDisplay):
    """Finished steps with their times, and below them the running one with its last line of output.

    Where there is no terminal, a line for each step and note, and sometimes one for the downloads. Instructions that
    only set something have no line.
    """

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._started = self._step_started = time.monotonic()
        self._step: BuildStep | None = None
        self._cached = False
        self._last = ""
        self._gateway: Gateway | None = None
        self._meter = Meter()

    def progress(self, event: Event) -> None:
        """Show a build's event."""
        if isinstance(event, Note):
            self._last = event.text
            self.notify(event.text)
        elif isinstance(event, BuildStep):
            self._done()
            self._step, self._cached, self._last = event, False, ""
            self._step_started = time.monotonic()
            if self._plain:
                self.notify(title(event))
        elif isinstance(event, Cached):
            self._cached = True
            if self._plain:
                self.notify("  cached")
        elif isinstance(event, OutputLine):
            self._last = event.line
        elif isinstance(event, Progress):
            self._last = summary(event)
            self.often("downloads", self._last)
        else:
            self._done()
            self._step = None

    def traffic(self, gateway: Gateway) -> None:
        """Show the bytes that this gateway serves."""
        self._gateway = gateway

    @property
    def _plain(self) -> bool:
        """Whether the step has a line, where there is no terminal."""
        return not self.width and self._step is not None and not _only_sets(self._step)

    def _done(self) -> None:
        if self._step and self.width and not _only_sets(self._step):
            took = "cached" if self._cached else f"{time.monotonic() - self._step_started:.1f} s"
            line = f"{title(self._step, self._most - len(took) - 2)}  {took}"
            self.notify(line, "dim" if self._cached else None)

    @property
    def _most(self) -> int:
        return min(self.width, _WIDTH)

    def render(self) -> Text:
        from rich.text import Text

        now = time.monotonic()
        numbers = clock(now - self._started)
        if self._step:
            numbers = f"{clock(now - self._step_started)}, total {numbers}"
        if self._gateway:
            rate = self._meter.rate(now, self._gateway.bytes_served)
            numbers += f"  {size(self._gateway.bytes_served)}" + (f", {size(rate)}/s" if rate >= 1 else "")
        what = title(self._step, self._most - len(numbers) - 2) if self._step else "preparing"
        text = Text(f"{what}  {numbers}", style="bold", no_wrap=True, overflow="ellipsis")
        if self._last:
            text.append(f"\n  {self._last[: self._most - 2]}", style="not bold dim")
        return text


def _only_sets(step: BuildStep) -> bool:
    return step.text.partition(" ")[0] in _SETTINGS


def title(step: BuildStep, width: int = _WIDTH) -> str:
    """`[5/23] torch: RUN ...`, cut to `width` characters."""
    text = f"[{step.number}/{step.total}] {step.block}: {brief(step.text)}"
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."


def brief(instruction: str) -> str:
    """An instruction without the boilerplate of every RUN."""
    word, _, command = instruction.partition(" ")
    return f"RUN {without_boilerplate(command)}" if word == "RUN" else instruction
