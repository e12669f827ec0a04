"""Verdicts on single cases, and what a pin that stands for several releases makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from reprokit.compat.model import PURPOSES, Purpose, Severity
from reprokit.compat.view import View


@dataclass(frozen=True)
class Verdict:
    """What is wrong with one case, and the ids of the sources that say so."""

    severity: Severity
    reason: str
    sources: tuple[str, ...] = ()


Clash = tuple[tuple[str, ...], Verdict]


@dataclass(frozen=True)
class Rule:
    """One check. `changes` are the pins that may be offered otherwise; `purposes` those it matters for."""

    id: str
    check: Callable[[View], Iterator[Clash]]
    changes: tuple[str, ...] = ()
    purposes: tuple[Purpose, ...] = PURPOSES


def error(reason: str, sources: Iterable[str] = ()) -> Verdict:
    return Verdict("error", reason, tuple(sources))


def warning(reason: str, sources: Iterable[str] = ()) -> Verdict:
    return Verdict("warning", reason, tuple(sources))


def unknown(reason: str, sources: Iterable[str] = ()) -> Verdict:
    return Verdict("unknown", reason, tuple(sources))


def info(reason: str, sources: Iterable[str] = ()) -> Verdict:
    return Verdict("info", reason, tuple(sources))


def shared(cases: Iterable[tuple[str, Verdict | None]]) -> Verdict | None:
    """What all cases of a partial pin share.

    An error where every case is one; where only some are (or some warn), a warning that names them; unknown where
    nothing better is known of any case; else nothing.
    """
    found = list(cases)
    for severity in ("error", "warning"):
        hit = [(label, v) for label, v in found if v is not None and v.severity == severity]
        if not hit:
            continue
        newest = hit[-1][1]
        if len(hit) == len(found):
            return Verdict(severity, newest.reason, _sources(v for _, v in hit))  # type: ignore[arg-type]
        rest = [label for label, v in found if v is None or v.severity != severity]
        named = f"{_names([label for label, _ in hit])}: {newest.reason}. Not so with {_names(rest)}"
        return Verdict("warning", named, _sources(v for _, v in hit))
    for severity in ("unknown", "info"):
        if found and all(v is not None and v.severity == severity for _, v in found):
            return found[0][1]
    return None


def _names(labels: list[str]) -> str:
    labels = list(dict.fromkeys(labels))
    sides = [label.partition(" with ") for label in labels]
    if len({left for left, _, _ in sides}) == 1 and all(right for _, _, right in sides):
        labels = [right for _, _, right in sides]
    elif len({right for _, _, right in sides}) == 1:
        labels = [left for left, _, _ in sides]
    return ", ".join(labels[:4]) + (f" and {len(labels) - 4} more" if len(labels) > 4 else "")


def _sources(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(s for v in verdicts for s in v.sources))
