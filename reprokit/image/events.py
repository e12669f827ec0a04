"""The events of a build, for displays and logs."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.supply.fetch.progress import Progress


@dataclass(frozen=True)
class BuildStep:
    """An instruction begins, or is `cached`. `number` counts from 1 to `total`; `block` is the one it belongs to."""

    number: int
    total: int
    block: str
    text: str
    cached: bool = False


@dataclass(frozen=True)
class StepEnd:
    """The instruction that began last has ended."""

    seconds: float


@dataclass(frozen=True)
class OutputLine:
    """One line of output, without its newline."""

    line: str


@dataclass(frozen=True)
class Failed:
    """The end of a build that failed: the step and the messages."""

    block: str
    step: str
    message: str


Event = BuildStep | StepEnd | OutputLine | Progress
