"""Rules, and how verdicts on single releases add up to one on a pin that stands for several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from reprokit.compat.model import PURPOSES, Purpose, Severity
from reprokit.compat.version import older
from reprokit.compat.view import View


@dataclass(frozen=True)
class Verdict:
    """What is wrong, and the ids of the sources that prove it. Without a `remedy` the nearest pins are one."""

    severity: Severity
    reason: str
    sources: tuple[str, ...] = ()
    remedy: str = ""
    doubtful: bool = False


class Problem(NamedTuple):
    """A verdict on `subjects`: the pins, GPUs or requirements that do not fit together.

    None as verdict means no problem.
    """

    subjects: tuple[str, ...]
    verdict: Verdict | None


@dataclass(frozen=True)
class CompatRule:
    """One check for `purposes`. `changes` are the pins for which other releases may be offered.

    With `about`, the rule is silent in stacks without that pin.
    """

    id: str
    check: Callable[[View], Iterable[Problem]]
    changes: tuple[str, ...]
    purposes: tuple[Purpose, ...]
    about: str = ""


def rule(
    name: str, changes: str = "", purposes: tuple[Purpose, ...] = PURPOSES, about: str = ""
) -> Callable[[Callable[[View], Iterable[Problem]]], CompatRule]:
    """Make a rule of a function that finds problems in a stack. `changes` are names of pins, separated by blanks."""
    return lambda check: CompatRule(name, check, tuple(changes.split()), purposes, about)


def combination_rule(
    name: str, of: str, changes: str | None = None, purposes: tuple[Purpose, ...] = PURPOSES, about: str = ""
) -> Callable[[Callable[..., Iterable[Verdict]]], CompatRule]:
    """Make a rule of a function that judges one combination of releases: `judge(view, *releases)`.

    Its first verdict counts. `of` names the sides (see `View.sides`), separated by blanks. The rule is silent if the
    stack lacks a side or no fact covers its version. `changes` are the pins among `of` unless given.
    """

    def made(judge: Callable[..., Iterable[Verdict]]) -> CompatRule:
        def check(view: View) -> Iterator[Problem]:
            return problems(view, of.split(), judge)

        return CompatRule(name, check, tuple((of if changes is None else changes).split()), purposes, about)

    return made


def combination_rules(
    name: str,
    of: str,
    each: Iterable[str | tuple[str, ...]],
    changes: str | None = None,
    purposes: tuple[Purpose, ...] = PURPOSES,
) -> Callable[[Callable[..., Iterable[Verdict]]], tuple[CompatRule, ...]]:
    """Make a combination rule for each name, or each tuple of names.

    Names replace `{}` in the texts, and follow the view among the arguments: `judge(view, *names, *releases)`. The
    first name is the pin that the rule is about.
    """

    def made(judge: Callable[..., Iterable[Verdict]]) -> tuple[CompatRule, ...]:
        rules = []
        for names in ((entry,) if isinstance(entry, str) else entry for entry in each):
            texts = (name.format(*(n.replace("_", "-") for n in names)), of.format(*names))
            offered = changes if changes is None else changes.format(*names)
            decorate = combination_rule(*texts, offered, purposes, about=names[0])
            rules.append(decorate(lambda view, *releases, names=names: judge(view, *names, *releases)))
        return tuple(rules)

    return made


def problems(
    view: View, names: Iterable[str], judge: Callable[..., Iterable[Verdict]], last: int = 0
) -> Iterator[Problem]:
    """Judge all combinations of releases of the sides `names`, see `View.sides`.

    `last` limits each side to that many of its newest releases.
    """
    for sides in product(*map(view.sides, names)):
        verdicts = (
            (" with ".join(label for label, _ in case if label), judge(view, *(value for _, value in case)))
            for case in product(*(side.releases[-last:] for side in sides))
        )
        yield Problem(tuple(side.subject for side in sides), combined(verdicts))


def error(reason: str, sources: Iterable[str] = (), remedy: str = "") -> Verdict:
    return Verdict("error", reason, tuple(sources), remedy)


def warning(reason: str, sources: Iterable[str] = ()) -> Verdict:
    return Verdict("warning", reason, tuple(sources))


def doubt(reason: str, sources: Iterable[str] = ()) -> Verdict:
    """A warning that would be an error if an unverified fact is true."""
    return Verdict("warning", reason, tuple(sources), doubtful=True)


def unknown(reason: str, sources: Iterable[str] = ()) -> Verdict:
    return Verdict("unknown", reason, tuple(sources))


def info(reason: str, sources: Iterable[str] = ()) -> Verdict:
    return Verdict("info", reason, tuple(sources))


def needs(
    what: str, other: str, least: str | None, version: str, sources: Iterable[str], doubtful: bool = False
) -> Iterator[Verdict]:
    """The error that `what` needs at least this version of `other`; a warning if the fact is doubtful."""
    if older(version, least):
        judged = doubt if doubtful else error
        yield judged(f"{what} needs {other} {least} or later, not {version}", sources)


def combined(verdicts: Iterable[tuple[str, Iterable[Verdict]]]) -> Verdict | None:
    """Combine the verdicts on all releases of a pin, each with its label; the first verdict on each counts.

    An error if every release fails; a warning that names the releases if only some fail or warn; unknown if all are
    unknown; else None.
    """
    judged = [(label, next(iter(own), None)) for label, own in verdicts]
    for severity in ("error", "warning"):
        hit = [(label, v) for label, v in judged if v is not None and v.severity == severity]
        if not hit:
            continue
        newest, sources = hit[-1][1], tuple(dict.fromkeys(s for _, v in hit for s in v.sources))
        if len(hit) == len(judged):
            return Verdict(newest.severity, newest.reason, sources, doubtful=all(v.doubtful for _, v in hit))
        others = [label for label, v in judged if v is None or v.severity != severity]
        reason = f"{_names([label for label, _ in hit])}: {newest.reason} ({_names(others)} would do)"
        return Verdict("warning", reason, sources)
    for severity in ("unknown", "info"):
        if judged and all(v is not None and v.severity == severity for _, v in judged):
            return judged[0][1]
    return None


def _names(labels: list[str]) -> str:
    """`CUDA 11.8, 12.1 and 3 more`; without the side that all labels have in common."""
    labels = list(dict.fromkeys(labels))
    sides = [label.partition(" with ") for label in labels]
    if len({left for left, _, _ in sides}) == 1 and all(right for _, _, right in sides):
        labels = [right for _, _, right in sides]
    elif len({right for _, _, right in sides}) == 1:
        labels = [left for left, _, _ in sides]
    return ", ".join(labels[:4]) + (f" and {len(labels) - 4} more" if len(labels) > 4 else "")
