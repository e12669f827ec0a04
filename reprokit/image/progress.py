"""A build's progress: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import IO, TYPE_CHECKING

from reprokit.display import ProgressDisplay
from reprokit.formatting import Meter, clock, size
from reprokit.image.events import BuildStep, Event, OutputLine, StepEnd
from reprokit.image.shell import without_boilerplate
from reprokit.supply.fetch.progress import summary
from reprokit.supply.gateway import Gateway

if TYPE_CHECKING:
    from rich.text import Text

_WIDTH = 80
# Instructions that take no time and do nothing to the files: they are in the log only.
_SETTINGS = ("ARG", "ENV", "FROM", "LABEL", "SHELL", "USER", "WORKDIR")


class BuildDisplay(ProgressDisplay):
    """A line for each block that ran, with its time, and below them the running step with its last line of output.

    Without a terminal, a line when a block begins to run, one for each note, and sometimes one for downloads.
    """

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._started = self._step_started = time.monotonic()
        self._block_s = 0.0
        self._step: BuildStep | None = None
        self._block = ""  # the running one
        self._last = ""
        self._gateway: Gateway | None = None
        self._meter = Meter()

    def __exit__(self, *args: object) -> None:
        self._end_block()
        super().__exit__(*args)

    def notify(self, line: str, style: str | None = None) -> None:
        self._last = line
        super().notify(line, style)

    def progress(self, event: Event) -> None:
        """Show a build's event."""
        if isinstance(event, BuildStep):
            self._step, self._last = event, ""
            self._step_started = time.monotonic()
            if not event.cached and not _only_sets(event) and event.block != self._block:
                self._end_block()
                self._block, self._block_s = event.block, 0.0
                if not self.width:
                    super().notify(f"[{event.number}/{event.total}] {event.block}")
        elif isinstance(event, StepEnd):
            self._block_s += event.seconds
        elif isinstance(event, OutputLine):
            self._last = event.line
        else:
            self._last = summary(event)
            self.often("downloads", self._last)

    def traffic(self, gateway: Gateway) -> None:
        """Show the bytes that this gateway serves."""
        self._gateway = gateway

    def _end_block(self) -> None:
        if self._block and self.width:
            super().notify(f"{self._block}  {self._block_s:.1f} s")
        self._block = ""

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
        heading = title(self._step, self._most - len(numbers) - 2) if self._step else "preparing"
        text = Text(f"{heading}  {numbers}", style="bold", no_wrap=True, overflow="ellipsis")
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
