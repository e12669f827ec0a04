"""What a build tells whoever watches it."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.supply.fetch.progress import Progress


@dataclass(frozen=True)
class Note:
    """A sentence about the build as a whole."""

    text: str


@dataclass(frozen=True)
class Step:
    """An instruction begins. `number` counts from 1 to `total`; `block` is the block that it belongs to."""

    number: int
    total: int
    block: str
    text: str


@dataclass(frozen=True)
class Cached:
    """The step that began last is taken from the layer cache."""


@dataclass(frozen=True)
class Output:
    """One line that the build printed, without its end."""

    line: str


@dataclass(frozen=True)
class Built:
    """The end of a build that worked."""

    image_id: str


@dataclass(frozen=True)
class Failed:
    """The end of one that did not: the builder's own words, and the last state that was good (an image id or '')."""

    block: str
    step: str
    message: str
    last_good: str = ""


Event = Note | Step | Cached | Output | Built | Failed | Progress
