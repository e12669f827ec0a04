"""Rules, and how verdicts on single releases add up to one on a pin that stands for several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

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


@dataclass(frozen=True)
class Problem:
    """A verdict on what the user wrote: `subjects` are the pins, GPUs or requirements that do not fit together.

    Without a verdict there is no problem.
    """

    subjects: tuple[str, ...]
    verdict: Verdict | None


@dataclass(frozen=True)
class CompatRule:
    """One check. `changes` are the pins of which other releases may be offered, `purposes` those that it is for.

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
    name: str, of: str, changes: str | None = None, purposes: tuple[Purpose, ...] = PURPOSES
) -> Callable[[Callable[..., Iterator[Verdict]]], CompatRule]:
    """Make a rule of a function that judges one combination of releases: `judge(view, *releases)`.

    Its first verdict counts. `of` names what is combined (see `View.sides`), separated by blanks. The rule is silent
    if the stack has no such pin or no fact knows its version. `changes` are the pins among `of` unless given.
    """

    def made(judge: Callable[..., Iterator[Verdict]]) -> CompatRule:
        def check(view: View) -> Iterator[Problem]:
            for sides in product(*(view.sides(each) for each in of.split())):
                combinations = product(*(side.releases for side in sides))
                verdicts = (
                    (" with ".join(label for label, _ in each if label), judge(view, *(value for _, value in each)))
                    for each in combinations
                )
                yield Problem(tuple(side.subject for side in sides), combined(verdicts))

        return CompatRule(name, check, tuple((of if changes is None else changes).split()), purposes)

    return made


def error(reason: str, sources: Iterable[str] = (), remedy: str = "") -> Verdict:
    return Verdict("error", reason, tuple(sources), remedy)


def warning(reason: str, sources: Iterable[str] = ()) -> Verdict:
    return Verdict("warning", reason, tuple(sources))


def doubt(reason: str, sources: Iterable[str] = ()) -> Verdict:
    """The warning of what is an error if a fact that is not verified is true."""
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
    """One verdict on all releases that a pin stands for, each with its label; the first verdict on each counts.

    An error if every release fails; a warning that names the releases if only some fail or warn; unknown if nothing
    is known of any; else none.
    """
    found = [(label, next(iter(each), None)) for label, each in verdicts]
    for severity in ("error", "warning"):
        hit = [(label, v) for label, v in found if v is not None and v.severity == severity]
        if not hit:
            continue
        newest, sources = hit[-1][1], tuple(dict.fromkeys(s for _, v in hit for s in v.sources))
        if len(hit) == len(found):
            return Verdict(newest.severity, newest.reason, sources, doubtful=all(v.doubtful for _, v in hit))
        rest = [label for label, v in found if v is None or v.severity != severity]
        reason = f"{_names([label for label, _ in hit])}: {newest.reason} ({_names(rest)} would do)"
        return Verdict("warning", reason, sources)
    for severity in ("unknown", "info"):
        if found and all(v is not None and v.severity == severity for _, v in found):
            return found[0][1]
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
