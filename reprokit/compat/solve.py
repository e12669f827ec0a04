"""Find the stack nearest to given pins that passes `check`, with the rules of `check` and a logic solver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from clingo import Control, Function, Number

from reprokit.compat.base import parse_base
from reprokit.compat.evaluate import judge, options
from reprokit.compat.facts import Facts
from reprokit.compat.model import Finding, Stack
from reprokit.compat.rule import CompatRule
from reprokit.compat.rules import RULES
from reprokit.compat.version import Key, key_or_zero, local, public, series
from reprokit.compat.view import View
from reprokit.recipe.pin_names import PIN_NAMES

_Place = tuple[Key, ...]


# At equal distance, tools change first, then the system, then CUDA, then the libraries that the code calls.
_TIERS = (("gcc", "clang", "llvm", "cmake", "cudnn"), ("distro", "base", "python", "numpy"), ("cuda",))


@dataclass(frozen=True)
class PinOption:
    """`steps`: release series between old and new version. `tier`: priority of the changed pin.

    `rank` orders the options of a pin with equal steps: same major, same release, newest patch, same build.
    """

    text: str
    steps: int
    rank: int
    tier: int = 0


def choices(view: View, name: str) -> list[PinOption]:
    """The pin's own value, then its replacements, nearest first."""
    current = view.stack.pins[name]
    texts = list(dict.fromkeys(text for offered in options(view, name) for _, text in offered if text != current))
    distance = _distance(view, name, texts)
    ranked: dict[int, int] = {}
    tier = next((n for n, names in enumerate(_TIERS) if name in names), len(_TIERS))
    pin_options = [PinOption(current, 0, 0)]
    for text in sorted(texts, key=lambda t: (distance(t), *_preference(view, name, current, t))):
        steps = distance(text)
        ranked[steps] = ranked.get(steps, -1) + 1
        pin_options.append(PinOption(text, steps, ranked[steps], tier))
    return pin_options


def _distance(view: View, name: str, texts: list[str]) -> Callable[[str], int]:
    """A function for the distance from the stack's pin to a version."""
    current = view.stack.pins[name]
    if name == "distro":
        pin = view.pin(name)
        return lambda text: _between_distros(view, pin.versions[0] if pin and pin.versions else "", text)
    if name != "base":
        steps = _steps([current, *texts])
        return lambda text: steps(current, text)
    cuda = _steps([_implied(view, text, "cuda") for text in (current, *texts)])
    return lambda text: (
        cuda(_implied(view, current, "cuda"), _implied(view, text, "cuda"))
        + _between_distros(view, _implied(view, current, "distro"), _implied(view, text, "distro"))
    )


def _steps(versions: list[str]) -> Callable[[str, str], int]:
    """The distance in series (`11.8` of 11.8.0) between two of `versions`; 0 if either is no version."""
    index = {k: i for i, k in enumerate(sorted({_series(v) for v in versions}))}

    def steps(old: str, new: str) -> int:
        return abs(index[_series(old)] - index[_series(new)]) if _series(old) and _series(new) else 0

    return steps


def _series(text: str) -> Key:
    return key_or_zero(series(public(text)))


def _between_distros(view: View, old: str, new: str) -> int:
    """The distance in releases; another family is farther than any release of the same family."""
    names = list(view.facts.distros.distros)
    if old not in names or new not in names:
        return len(names) * (old != new)
    same = old.partition(":")[0] == new.partition(":")[0]
    return abs(names.index(old) - names.index(new)) + (0 if same else len(names))


def _implied(view: View, base: str, name: str) -> str:
    return parse_base(view.facts, base).implied.get(name, "")


def _preference(view: View, name: str, current: str, text: str) -> tuple[bool, bool, _Place, bool, str]:
    """The same major first, then the same release in another build, then the newest, then the same build."""
    if name == "base":
        current, text = _implied(view, current, "cuda"), _implied(view, text, "cuda")
    now, then = key_or_zero(public(current)), key_or_zero(public(text))
    build = local(text)
    newest = tuple((-n,) for n in then)
    return now[:1] != then[:1], now != then, newest, build != local(current), _newest_first(build)


def _newest_first(build: str) -> str:
    """A sort key: builds of newer CUDA first."""
    digits = build.removeprefix("cu")
    return f"{10_000 - int(digits):05}" if digits.isdigit() and len(digits) < 5 else build


_Path = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Conflict:
    """An error of every stack in which these pins have these values."""

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
        return Conflict(frozenset(pin for pin in self.values if pin[0] != name), self.finding)


class _Noted(Mapping[str, str]):
    """Pins that record the order in which they are first read."""

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
    """Judge pins within a stack. No rule runs twice for the same values of the pins that it reads.

    With `doubts`, a doubtful warning is a conflict too.
    """

    doubts = False

    def __init__(self, facts: Facts, stack: Stack) -> None:
        self._facts = facts
        self._stack = stack
        # By rule and pins read so far: the pin that the rule reads next, or after the last pin two lists of
        # conflicts, the errors, and the errors with the doubtful warnings.
        self._known: dict[tuple[CompatRule, _Path], str | tuple[list[Conflict], list[Conflict]]] = {}

    def of(self, pins: Mapping[str, str]) -> Iterator[tuple[CompatRule, Conflict]]:
        """All conflicts of a stack with these pins."""
        for rule in RULES:
            for conflict in self.of_rule(rule, pins):
                yield rule, conflict

    def of_rule(self, rule: CompatRule, pins: Mapping[str, str]) -> list[Conflict]:
        path: _Path = ()
        while (entry := self._known.get((rule, path))) is not None:
            if not isinstance(entry, str):
                return entry[self.doubts]
            path = (*path, (entry, pins.get(entry)))
        return self._judged(rule, pins)[self.doubts]

    def _judged(self, rule: CompatRule, pins: Mapping[str, str]) -> tuple[list[Conflict], list[Conflict]]:
        noted = _Noted(pins)
        conflicts = []
        for _, finding in judge(View(self._facts, replace(self._stack, pins=noted)), (rule,)):
            if finding.severity == "error" or finding.doubtful:
                values = frozenset((name, value) for name, value in noted.read.items() if value is not None)
                conflicts.append(Conflict(values, finding))
        path = tuple(noted.read.items())
        for count, (name, _) in enumerate(path):
            self._known[rule, path[:count]] = name
        both = [conflict for conflict in conflicts if conflict.finding.severity == "error"], conflicts
        self._known[rule, path] = both
        return both


# choice(PIN, VALUE, STEPS, TIER, RANK) with numbers for pins and values; value 0 is the user's.
_RULES = """
#defined choice/5.
#show is/2.
1 { is(P,V) : choice(P,V,_,_,_) } 1 :- choice(P,_,_,_,_).
#minimize { 1@4,P : is(P,V), V > 0 }.
#minimize { S@3,P : is(P,V), choice(P,V,S,_,_) }.
#minimize { T@2,P : is(P,V), choice(P,V,_,T,_) }.
#minimize { R@1,P : is(P,V), choice(P,V,_,_,R) }.
"""


class Program:
    """Fewest pins changed first, then the fewest steps, then the lowest tiers, then the lowest rank."""

    def __init__(self, choices: Mapping[str, list[PinOption]]) -> None:
        facts = "".join(
            f"choice({pin},{value},{choice.steps},{choice.tier},{choice.rank})."
            for pin, offered in enumerate(choices.values())
            for value, choice in enumerate(offered)
        )
        self._control = Control(["--seed=1"])
        self._control.add("base", [], facts + _RULES)
        self._control.ground([("base", [])])
        self._names = {
            Function("is", [Number(pin), Number(value)]): (name, choice.text)
            for pin, (name, offered) in enumerate(choices.items())
            for value, choice in enumerate(offered)
        }
        self._literals = {self._names[a.symbol]: a.literal for a in self._control.symbolic_atoms.by_signature("is", 2)}

    def exclude(self, conflicts: Iterable[frozenset[tuple[str, str]]]) -> None:
        """Exclude sets of pins and values that cannot all hold."""
        with self._control.backend() as backend:
            for values in conflicts:
                backend.add_rule([], [self._literals[value] for value in values])

    def best(self) -> dict[str, str] | None:
        """The best remaining values, None if there are none."""
        values = None
        with self._control.solve(yield_=True) as models:
            for model in models:  # each is better than the last
                values = dict(self._names[symbol] for symbol in model.symbols(shown=True))
        return values


@dataclass(frozen=True)
class ChangedPin:
    """A pin with a new value; `because` is the error of its old value."""

    pin: str
    old: str
    new: str
    because: Finding


@dataclass(frozen=True)
class Solution:
    """`pins` are those of a stack without errors, with the changes; None if there is none.

    Then `core` is a smallest set of pins, GPUs and requirements that clash whatever the other pins are. `reasons` has
    one error for each way in which they clash.
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
    """Pins of a stack without errors, None if there are none. Unlike `solve`, without the reasons."""
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
        while (values := program.best()) is not None:
            pins = {**self._pins, **values}
            conflicts = [(rule, conflict) for rule, conflict in self.conflicts.of(pins) if counts(conflict)]
            if not conflicts:
                return pins
            learnt = [new for rule, conflict in conflicts for new in self._learn(rule, conflict, pins)]
            program.exclude(conflict.values for conflict in learnt if counts(conflict))
        return None

    def _learn(self, rule: CompatRule, conflict: Conflict, pins: dict[str, str]) -> list[Conflict]:
        """The conflict, and those of the same rule if one of its pins has another value."""
        first = self._narrowed(rule, conflict, pins, conflict.pins)
        idle = conflict.pins - first.pins
        conflicts = [first]
        for name in sorted(first.pins):
            for choice in self._choices[name]:
                others = {**pins, name: choice.text}
                conflicts += [self._narrowed(rule, c, others, idle) for c in self.conflicts.of_rule(rule, others)]
        self._learnt.update(dict.fromkeys(conflicts))
        return conflicts

    def _narrowed(self, rule: CompatRule, conflict: Conflict, pins: dict[str, str], names: frozenset[str]) -> Conflict:
        """The conflict without those of `names` that it does not name and whose values do not matter."""
        for name in sorted(names & conflict.pins - self._named(conflict.finding, pins)):
            narrower = conflict.without(name)
            values = (choice.text for choice in self._choices[name])
            if all(self._implies(rule, {**pins, name: value}, narrower, name) for value in values):
                conflict = narrower
        return conflict

    def _implies(self, rule: CompatRule, pins: dict[str, str], narrower: Conflict, name: str) -> bool:
        """Whether these pins have the same error only because of the pins of `narrower`."""
        spoken_of = self._named(narrower.finding, pins)
        return any(
            c.without(name).values <= narrower.values
            and c.context <= narrower.context
            and self._named(c.finding, pins) == spoken_of
            for c in self.conflicts.of_rule(rule, pins)
        )

    def _named(self, finding: Finding, pins: dict[str, str]) -> set[str]:
        """The pins that a finding names; the base image for pins that it implies."""
        named = ({subject.partition("=")[0] for subject in finding.subjects} & set(PIN_NAMES)) - self._resolved
        return named if named <= set(pins) else {*named, "base"}

    def reason(self, pins: dict[str, str]) -> Finding:
        """An error of these pins, preferably one of the original stack."""
        errors = [conflict.finding for _, conflict in self.conflicts.of(pins)]
        return next((f for f in errors if f in self._known_errors), errors[0])

    def core(self) -> Solution:
        involved = [name for name in self._pins if any(name in conflict.pins for conflict in self._learnt)]
        active = next(
            names
            for size in range(len(involved) + 1)
            for names in combinations(involved, size)
            if self.best(names) is None
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
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.rule, finding)
    return tuple(first.values())
