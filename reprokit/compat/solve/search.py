"""The search for the nearest stack without errors, and for the pins that cannot go together."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import combinations

from reprokit.compat.evaluate import judge
from reprokit.compat.facts import Facts
from reprokit.compat.model import Finding, Stack
from reprokit.compat.rule import CompatRule
from reprokit.compat.solve.choices import PinOption, choices
from reprokit.compat.solve.conflicts import Conflict, Conflicts
from reprokit.compat.solve.program import Program
from reprokit.compat.view import View
from reprokit.recipe.pin_names import PIN_NAMES


@dataclass(frozen=True)
class ChangedPin:
    """A pin with another value; `because` is the error that comes back with its old value."""

    pin: str
    old: str
    new: str
    because: Finding


@dataclass(frozen=True)
class Solution:
    """`pins` are those of a stack without errors, with the changes; None if there is none.

    Then `core` is a smallest set of pins, GPUs and requirements that cannot go together, whatever the other pins are.
    `reasons` has one error for each way in which they clash.
    """

    pins: dict[str, str] | None
    changes: tuple[ChangedPin, ...] = ()
    core: tuple[str, ...] = ()
    reasons: tuple[Finding, ...] = ()


def solve(facts: Facts, stack: Stack, fixed: Collection[str] = ()) -> Solution:
    """The stack without errors that changes least; the pins in `fixed` stay as they are.

    A change never leads to a stack with doubtful warnings, unless no other stack passes.
    """
    if not any(Conflicts(facts, stack).of(stack.pins)):
        return Solution(dict(stack.pins))
    search = _Search(facts, stack, fixed)
    best = search.best(tuple(stack.pins))
    if best is None:
        return search.core()
    search.conflicts.doubts = True
    certain = search.best(tuple(stack.pins))
    search.conflicts.doubts = certain is not None
    best = certain or best
    changes = []
    for name, old in stack.pins.items():
        if best[name] != old:
            changes.append(ChangedPin(name, old, best[name], search.reason({**best, name: old})))
    return Solution(best, tuple(changes))


def passing(facts: Facts, stack: Stack) -> dict[str, str] | None:
    """Pins of a stack without errors, None if there are none. Unlike `solve`, this does not find out why."""
    return _Search(facts, stack, ()).best(tuple(stack.pins))


class _Search:
    def __init__(self, facts: Facts, stack: Stack, fixed: Collection[str]) -> None:
        view = View(facts, stack)
        self._pins = dict(stack.pins)
        self._resolved = set(stack.resolved) - set(stack.pins)
        self._choices = {
            name: [PinOption(text, 0, 0)] if name in fixed else choices(view, name) for name, text in stack.pins.items()
        }
        self.conflicts = Conflicts(facts, stack)
        self._learnt: dict[Conflict, None] = {}
        self._known_errors = {f for _, f in judge(view) if f.severity == "error"}

    def best(self, active: tuple[str, ...], without: frozenset[str] = frozenset()) -> dict[str, str] | None:
        """The best values of the active pins. Errors that depend on other pins or on `without` do not count."""

        names = frozenset(active)

        def counts(conflict: Conflict) -> bool:
            return conflict.pins <= names and not without & conflict.context

        program = Program({name: self._choices[name] for name in active})
        program.exclude(conflict.values for conflict in self._learnt if counts(conflict))
        while (found := program.best()) is not None:
            pins = {**self._pins, **found}
            conflicts = [(rule, conflict) for rule, conflict in self.conflicts.of(pins) if counts(conflict)]
            if not conflicts:
                return pins
            learnt = [each for rule, conflict in conflicts for each in self._learn(rule, conflict, pins)]
            program.exclude(conflict.values for conflict in learnt if counts(conflict))
        return None

    def _learn(self, rule: CompatRule, conflict: Conflict, pins: dict[str, str]) -> list[Conflict]:
        """The conflict, and those of the same rule if one of its pins has another value."""
        first = self._narrowed(rule, conflict, pins, conflict.pins)
        idle = conflict.pins - first.pins
        found = [first]
        for name in sorted(first.pins):
            for choice in self._choices[name]:
                others = {**pins, name: choice.text}
                found += [self._narrowed(rule, c, others, idle) for c in self.conflicts.of_rule(rule, others)]
        self._learnt.update(dict.fromkeys(found))
        return found

    def _narrowed(self, rule: CompatRule, conflict: Conflict, pins: dict[str, str], names: frozenset[str]) -> Conflict:
        """The conflict without those of `names` that it does not speak of and whose value does not matter."""
        for name in sorted(names & conflict.pins - self._named(conflict.finding, pins)):
            narrower = conflict.without(name)
            values = (choice.text for choice in self._choices[name])
            if all(self._implies(rule, {**pins, name: value}, narrower, name) for value in values):
                conflict = narrower
        return conflict

    def _implies(self, rule: CompatRule, pins: dict[str, str], narrower: Conflict, name: str) -> bool:
        """Whether these pins have the same error, and for no other reason than the pins of `narrower`."""
        spoken_of = self._named(narrower.finding, pins)
        return any(
            c.without(name).values <= narrower.values
            and c.context <= narrower.context
            and self._named(c.finding, pins) == spoken_of
            for c in self.conflicts.of_rule(rule, pins)
        )

    def _named(self, finding: Finding, pins: dict[str, str]) -> set[str]:
        """The pins that a finding speaks of; the base image if it speaks of what is inside."""
        named = ({subject.partition("=")[0] for subject in finding.subjects} & set(PIN_NAMES)) - self._resolved
        return named if named <= set(pins) else {*named, "base"}

    def reason(self, pins: dict[str, str]) -> Finding:
        """An error of these pins; one of the stack as it was, if there is one."""
        found = [conflict.finding for _, conflict in self.conflicts.of(pins)]
        return next((f for f in found if f in self._known_errors), found[0])

    def core(self) -> Solution:
        involved = [name for name in self._pins if any(name in conflict.pins for conflict in self._learnt)]
        active = next(
            each
            for size in range(len(involved) + 1)
            for each in combinations(involved, size)
            if self.best(each) is None
        )
        within = [c for c in self._learnt if c.pins <= set(active)]
        without: frozenset[str] = frozenset()
        for label in dict.fromkeys(label for c in within for label in sorted(c.context)):
            if self.best(active, without | {label}) is None:
                without |= {label}
        within = [c for c in self._learnt if c.pins <= set(active) and not without & c.context]
        labels = dict.fromkeys(label for c in within for label in sorted(c.context))
        pins = [f"{name}={self._pins[name]}" for name in active]
        return Solution(None, (), (*pins, *labels), _first_of_each(c.finding for c in within))


def _first_of_each(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    found: dict[str, Finding] = {}
    for finding in findings:
        found.setdefault(finding.rule, finding)
    return tuple(found.values())
