"""Fusion plans: which consecutive operators of a layer run as one compiled region.

A plan is written as 16 bits. Bit 0, the leftmost, allows the hand-written attention. Bits 1 to 15 belong to the
operators: each maximal run of equal bits is a part, and a part of two or more operators is a fused segment. This is the
encoding of AToffer (SC 2024).
"""

from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

OPERATORS = 15
BITS = OPERATORS + 1
VALUES = 1 << BITS
DIFFERENT = 16640  # plans that run different code
ATTENTION = (3, 7)  # from the scores to the transpose, all of which the hand-written kernel computes

Part = Tuple[int, int]  # first and last operator, counted from 1


class Plan(NamedTuple):
    """`cuts`: the operators that begin a part, operator 1 excepted. `hand_written`: bit 0."""

    hand_written: bool
    cuts: Tuple[int, ...]

    @property
    def parts(self) -> Tuple[Part, ...]:
        """Every operator once, in order; a part of one operator is not fused."""
        starts = (1, *self.cuts)
        return tuple(zip(starts, [start - 1 for start in self.cuts] + [OPERATORS]))

    @property
    def segments(self) -> Tuple[Part, ...]:
        return tuple(part for part in self.parts if part[0] < part[1])

    @property
    def uses_attention(self) -> bool:
        """Whether bit 0 has an effect: one segment is exactly what the hand-written kernel replaces."""
        return self.hand_written and ATTENTION in self.parts

    @property
    def value(self) -> int:
        """The canonical value: of the two that differ in all of bits 1 to 15, the one whose bit 1 is 0."""
        value, bit = int(self.hand_written), 0
        for operator in range(1, OPERATORS + 1):
            bit ^= operator in self.cuts
            value = value << 1 | bit
        return value

    def __str__(self) -> str:
        parts = [" ".join(map(str, part)) for part in self.segments]
        return " ".join([str(int(self.hand_written)), str(len(parts)), *parts])

    def neighbours(self) -> Iterator["Plan"]:
        """The 15 plans that differ in bit 0, or join or cut at one place."""
        yield self._replace(hand_written=not self.hand_written)
        for place in range(2, OPERATORS + 1):
            yield self._replace(cuts=tuple(sorted(set(self.cuts) ^ {place})))

    def as_run(self) -> "Plan":
        """The plan with bit 0 cleared where it has no effect: equal for plans that run the same code."""
        return self._replace(hand_written=self.uses_attention)


NOTHING_FUSED = Plan(False, tuple(range(2, OPERATORS + 1)))
ALL_FUSED = Plan(False, ())


def from_value(value: int) -> Plan:
    """The plan of a value. Raises ValueError outside 0 to 65535."""
    if not 0 <= value < VALUES:
        raise ValueError(f"{value} is not a plan: values are 0 to {VALUES - 1}")
    return from_bits(f"{value:0{BITS}b}")


def from_bits(bits: str) -> Plan:
    """The plan of 16 characters 0 and 1. Raises ValueError."""
    if len(bits) != BITS or set(bits) - {"0", "1"}:
        raise ValueError(f"{bits!r} is not a plan: it must be {BITS} characters 0 or 1")
    return Plan(bits[0] == "1", tuple(place for place in range(2, BITS) if bits[place] != bits[place - 1]))


def from_segments(hand_written: bool, segments: Iterable[Part]) -> Plan:
    """The plan with these fused segments, in order. Raises ValueError for segments that overlap or do not exist."""
    cuts = set(range(2, BITS))
    free = 1
    for first, last in segments:
        if not free <= first < last <= OPERATORS:
            raise ValueError(
                f"{first} {last} is not a segment: it must have two or more of the operators {free} to {OPERATORS}"
            )
        cuts -= set(range(first + 1, last + 1))
        free = last + 1
    return Plan(hand_written, tuple(sorted(cuts)))


def from_text(text: str) -> Plan:
    """The reverse of `str(plan)`: BIT0 SEGMENTS START END ... Raises ValueError."""
    try:
        bit, count, *ends = [int(word) for word in text.split()]
    except ValueError:
        bit, count, ends = -1, -1, []
    if bit not in (0, 1) or len(ends) != 2 * count:
        raise ValueError(f"{text!r} is not a plan: it must be BIT0 SEGMENTS START END ..., such as 0 2 1 2 3 4")
    return from_segments(bool(bit), zip(ends[::2], ends[1::2]))


def all_plans() -> List[Plan]:
    """All 32 768 plans, by canonical value."""
    return [from_value(bit << OPERATORS | low) for bit in (0, 1) for low in range(1 << (OPERATORS - 1))]


def plans_that_differ() -> List[Plan]:
    """The plans that run different code: bit 0 is set only where it has an effect."""
    return [plan for plan in all_plans() if plan.as_run() == plan]


def cheapest(costs: Dict[Part, float], attention: Optional[float], count: int) -> List[Tuple[float, Plan]]:
    """The `count` cheapest plans, if a plan costs as much as its parts together; cheapest first.

    costs: of every part that may be used. attention: of the hand-written kernel in place of operators 3 to 7. Dynamic
    programming over prefixes: the best plans of operators 1 to n are among the best of shorter prefixes with one part
    more.
    """
    prefixes: List[List[Tuple[float, bool, Tuple[Part, ...]]]] = [[(0.0, False, ())]]
    for last in range(1, OPERATORS + 1):
        found = []
        for first in range(1, last + 1):
            part = (first, last)
            kinds = [(costs[part], False)] if part in costs else []
            if part == ATTENTION and attention is not None:
                kinds.append((attention, True))
            for cost, hand_written in kinds:
                for before, used, parts in prefixes[first - 1]:
                    found.append((before + cost, used or hand_written, (*parts, part)))
        prefixes.append(sorted(found)[:count])
    return [(cost, _of_parts(used, parts)) for cost, used, parts in prefixes[-1]]


def _of_parts(hand_written: bool, parts: Sequence[Part]) -> Plan:
    return Plan(hand_written, tuple(first for first, _ in parts[1:]))
