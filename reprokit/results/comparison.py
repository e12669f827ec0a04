"""Compare two sets of results, case by case. Unlike records are named, never averaged. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from reprokit.formatting import counted
from reprokit.results.likeness import IDENTITY, Group, differing, key_of, latest_alike
from reprokit.results.stats import SLOWDOWN, Effect, effect
from reprokit.results.tables import number, shown
from reprokit.tables import ReportTable

# If other conditions than these differ, so may the numbers of equal code, unless the user compares these conditions.
# The build key depends on the code.
_NOTED = ("commit", "dirty", "changes", "input_hash", "image_digest", "environment.build")
# Fields that determine the versions in an image.
_IMAGE = {"variant", "input_hash", "image_digest"}
_CASE = ("recipe", "variant", "benchmark", "metric", "unit")
# With this many runs in each set, runs are compared: samples of one run resemble each other.
_RUNS = 5


@dataclass(frozen=True)
class Comparison:
    """One case in both sets. `unlike` names conditions that differ; `notes` parts that were not compared, and doubts.

    `compared` is "samples" or "runs"; the smaller set has `fewest` of them. `medians` are theirs.
    """

    a: Group
    b: Group
    effect: Effect
    unlike: tuple[str, ...]
    notes: tuple[str, ...]
    compared: str
    fewest: int
    medians: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        names = ("recipe", "benchmark", "metric", "unit", "params")
        return {
            **{name: self.a.identity[name] for name in names},
            "a": _side(self.a, self.medians[0]),
            "b": _side(self.b, self.medians[1]),
            "compared": self.compared,
            **vars(self.effect),
            "verdict": self.verdict,
            "unlike": list(self.unlike),
            "notes": list(self.notes),
        }

    @property
    def verdict(self) -> str:
        return f"unlike: differ in {', '.join(self.unlike)}" if self.unlike else self.effect.judgement


def _side(group: Group, median: float) -> dict[str, Any]:
    return {"variant": group.identity["variant"], "median": median, "samples": len(group.samples)}


def compare(a: Iterable[Group], b: Iterable[Group], chosen: Collection[str]) -> tuple[list[Comparison], int]:
    """The cases of both sets, and the number of cases in one set only.

    `chosen` are the fields by which the sets were chosen, such as `node` or `params.impl`, which may differ.
    """
    if "benchmark" in chosen:
        chosen = {*chosen, "command"}
    left, right = _by_case(a, chosen), _by_case(b, chosen)
    both = [key for key in left if key in right]
    return [_compared(left[key], right[key], chosen) for key in both], len(left) + len(right) - 2 * len(both)


def _compared(a: Sequence[Group], b: Sequence[Group], chosen: Collection[str]) -> Comparison:
    notes: list[str] = []
    sides = []
    for name, groups in (("A", a), ("B", b)):
        (latest, *_), note = latest_alike(groups, IDENTITY)
        notes += [f"{name}: {note}"] if note else []
        notes += [f"{name}: in doubt: {text}" for text in latest.doubts]
        sides.append(latest)
    parts = [_repeats(side) for side in sides]
    runs = min(map(len, parts))
    if runs < _RUNS and any(len(part) > 1 for side in parts for part in side):
        notes.append(f"samples of {counted(runs, 'run')}: differences between runs are not in the interval")
    if _one_after_the_other(*sides):
        notes.append("one set was measured after the other: a machine that changed in between looks like a difference")
    if sides[0].identity == sides[1].identity and set(sides[0].runs) & set(sides[1].runs):
        notes.append("some records are in both sets")
    fields = [field for field in differing(sides) if not {field, field.partition(".")[0]} & set(chosen)]
    noted = [
        field for field in fields if field in _NOTED or (field.startswith("environment.") and _IMAGE & set(chosen))
    ]
    if noted:
        notes.append(f"the sets also differ in {', '.join(noted)}")
    unlike = tuple(field for field in fields if field not in noted)
    units = [_units(side, runs) for side in parts]
    compared = "samples" if runs < _RUNS else "runs"
    fewest = min(map(len, units))
    medians = (statistics.median(units[0]), statistics.median(units[1]))
    return Comparison(sides[0], sides[1], effect(*units), unlike, tuple(notes), compared, fewest, medians)


def _units(parts: Sequence[tuple[float, ...]], most_runs: int) -> list[float]:
    """The compared values: medians of runs if both sets have enough runs, else samples, in order of measurement."""
    if most_runs < _RUNS:
        return [sample for part in parts for sample in part]
    return [statistics.median(part) for part in parts]


def _one_after_the_other(a: Group, b: Group) -> bool:
    spans = sorted((min(run.time for run in group.runs), group.last) for group in (a, b))
    return spans[0][1] < spans[1][0]


def _repeats(group: Group) -> list[tuple[float, ...]]:
    """The samples of each run of the command."""
    parts = []
    for run in sorted(group.runs, key=attrgetter("time")):
        start = 0
        counts = run.repeats if sum(run.repeats) == len(run.samples) else (len(run.samples),)
        for count in counts:
            parts.append(run.samples[start : start + count])
            start += count
    return [part for part in parts if part]


def _by_case(groups: Iterable[Group], chosen: Collection[str]) -> dict[str, list[Group]]:
    without = {field.partition(".")[2] for field in chosen if field.startswith("params.")}
    names = tuple(name for name in _CASE if name not in chosen)
    cases: dict[str, list[Group]] = {}
    for group in groups:
        params = sorted((name, repr(value)) for name, value in group.identity["params"].items() if name not in without)
        cases.setdefault(f"{key_of(group, names)}{params}", []).append(group)
    return cases


def as_table(cases: Sequence[Comparison], title: str) -> ReportTable:
    """One row a case. The notes name doubts, and how many samples noisy cases would need."""
    rows = []
    notes: dict[str, None] = {}
    for case in cases:
        first = case.a.identity
        params = ", ".join(f"{name} {shown(value)}" for name, value in first["params"].items())
        measured = case.effect
        interval = f"{measured.low:.3f}..{measured.high:.3f}" if measured.low and measured.high else ""
        medians = map(number, case.medians)
        ratio = f"{measured.ratio:.3f}" if measured.ratio is not None else ""
        counts = f"{len(case.a.samples)}, {len(case.b.samples)}"
        name = f"{first['variant']} {first['benchmark']} {first['metric']} [{first['unit']}]"
        verdict = "unlike" if case.unlike else case.verdict
        rows.append((name, params, *medians, ratio, interval, f"{measured.p:.2g}", counts, verdict))
        if case.unlike:
            notes[f"{name} {params}: {case.verdict}"] = None
        notes |= dict.fromkeys(case.notes)
        if case.verdict in ("no difference found", "too few samples") and (measured.needed or 0) > case.fewest:
            needed = f"{measured.needed} {case.compared} in each set"
            notes[f"{name} {params}: {needed} would find a slow-down of {SLOWDOWN:.0%}"] = None
    columns = ("metric", "case", "A", "B", "B/A", "95 % interval", "p", "samples", "verdict")
    return ReportTable(title, "", columns, tuple(rows), tuple(notes), words=(0, 1, 8), keys=2)
