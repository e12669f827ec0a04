"""The errors of `check` with the pins that each depends on, found by noting which pins a rule reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from reprokit.compat.evaluate import judge
from reprokit.compat.facts import Facts
from reprokit.compat.model import Finding, Stack
from reprokit.compat.rule import CompatRule
from reprokit.compat.rules import RULES
from reprokit.compat.view import View
from reprokit.recipe.pin_names import PIN_NAMES

_Path = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Conflict:
    """An error that holds wherever these pins have these values."""

    values: frozenset[tuple[str, str]]
    finding: Finding

    @cached_property
    def pins(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.values)

    @cached_property
    def context(self) -> frozenset[str]:
        """The subjects that are no pins: GPUs, the driver, requirements."""
        return frozenset(s for s in self.finding.subjects if s.partition("=")[0] not in PIN_NAMES)

    def without(self, name: str) -> Conflict:
        return Conflict(frozenset(each for each in self.values if each[0] != name), self.finding)


class _Noted(Mapping[str, str]):
    """Pins that note in which order they are first read."""

    def __init__(self, pins: Mapping[str, str]) -> None:
        self._pins = pins
        self.read: dict[str, str | None] = {}

    def __getitem__(self, name: str) -> str:
        self.read.setdefault(name, self._pins.get(name))
        return self._pins[name]

    def __iter__(self) -> Iterator[str]:
        for name in self._pins:
            self.read.setdefault(name, self._pins[name])
            yield name

    def __len__(self) -> int:
        return len(self._pins)


class Conflicts:
    """Judges pins beside the rest of a stack. No rule is asked twice about the same values of the pins that it reads.

    With `doubts`, a doubtful warning is a conflict too.
    """

    doubts = False

    def __init__(self, facts: Facts, stack: Stack) -> None:
        self._facts = facts
        self._stack = stack
        # The key is a rule and the pins that it has read so far. The value is the pin that it reads next, or, after
        # the last pin, two lists of conflicts: the errors, and the errors with the doubtful warnings.
        self._known: dict[tuple[CompatRule, _Path], str | tuple[list[Conflict], list[Conflict]]] = {}

    def of(self, pins: Mapping[str, str]) -> Iterator[tuple[CompatRule, Conflict]]:
        """All conflicts of a stack with these pins."""
        for rule in RULES:
            for conflict in self.of_rule(rule, pins):
                yield rule, conflict

    def of_rule(self, rule: CompatRule, pins: Mapping[str, str]) -> list[Conflict]:
        path: _Path = ()
        while (known := self._known.get((rule, path))) is not None:
            if not isinstance(known, str):
                return known[self.doubts]
            path = (*path, (known, pins.get(known)))
        return self._judged(rule, pins)[self.doubts]

    def _judged(self, rule: CompatRule, pins: Mapping[str, str]) -> tuple[list[Conflict], list[Conflict]]:
        noted = _Noted(pins)
        found = []
        for _, finding in judge(View(self._facts, replace(self._stack, pins=noted)), (rule,)):
            if finding.severity == "error" or finding.doubtful:
                values = frozenset((name, value) for name, value in noted.read.items() if value is not None)
                found.append(Conflict(values, finding))
        path = tuple(noted.read.items())
        for count, (name, _) in enumerate(path):
            self._known[rule, path[:count]] = name
        both = [each for each in found if each.finding.severity == "error"], found
        self._known[rule, path] = both
        return both
