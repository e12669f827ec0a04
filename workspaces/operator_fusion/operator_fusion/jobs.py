"""What can be measured, and what a measurement is. Needs no torch."""

import statistics
from typing import List, NamedTuple, Union

from .plans import ATTENTION, OPERATORS, Part, Plan


class PartAlone(NamedTuple):
    """One part of a layer, measured without the rest. `hand_written`: by our attention, operators 3 to 7."""

    part: Part
    hand_written: bool = False


class Confirmed(NamedTuple):
    """A plan that a search chose, measured once more, in more rounds.

    The value by which it was chosen is the smallest of many noisy ones, so it is too small.
    """

    plan: Plan


class Versus(NamedTuple):
    """A plan beside another one in the same rounds; a pair is its time over the other's."""

    plan: Plan
    other: Plan


Job = Union[Plan, PartAlone]  # what a strategy proposes
Stored = Union[Job, Confirmed, Versus]


class Measurement(NamedTuple):
    """`pairs`: times over that of the whole compiled layer, in the same rounds.

    `milliseconds`: the job's median.
    """

    pairs: List[float]
    milliseconds: float

    @property
    def value(self) -> float:
        return statistics.median(self.pairs)


def every_part() -> List[PartAlone]:
    """The 121 parts: 15 single operators, 105 segments, and the hand-written attention."""
    parts = [PartAlone((a, b)) for a in range(1, OPERATORS + 1) for b in range(a, OPERATORS + 1)]
    return [*parts, PartAlone(ATTENTION, True)]
