"""A metric over time: points, and a sparkline for a terminal. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reprokit.formatting import counted
from reprokit.results.likeness import Group, differing, key_of
from reprokit.results.tables import commit_of, number, shown, some_of
from reprokit.tables import ReportTable

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 40
_MOST_APART, _LONGEST = 5, 20  # fields besides the machine, and characters of each
# A line of the history is one case on one machine: code and image may change along it; other changes are noted.
_LINE = ("recipe", "variant", "benchmark", "metric", "unit", "params", "cpu", "threads", "gpu", "node", "files")
_CODE = ("commit", "dirty", "changes", "input_hash", "image_digest")


@dataclass(frozen=True)
class HistoryLine:
    """The medians of one case on one machine, oldest first: time, commit or image, median.

    `hardware` includes the fields that distinguish lines of the same name. `apart` are conditions other than code and
    image in which the runs differ.
    """

    title: str
    case: str
    hardware: str
    points: tuple[tuple[str, str, float], ...]
    apart: tuple[str, ...] = ()


def lines_of(groups: Iterable[Group]) -> list[HistoryLine]:
    by_line: dict[str, list[Group]] = {}
    for group in groups:
        by_line.setdefault(key_of(group, _LINE), []).append(group)
    lines = [_line(alike) for alike in by_line.values()]
    same: dict[tuple[str, ...], list[Group]] = {}
    for line, alike in zip(lines, by_line.values(), strict=True):
        same.setdefault(_shown(line), []).append(alike[0])
    apart = {key: [f for f in differing(firsts) if f.partition(".")[0] in _LINE] for key, firsts in same.items()}
    return [
        replace(line, hardware=", ".join([line.hardware, *_values(alike[0], apart[_shown(line)])]))
        for line, alike in zip(lines, by_line.values(), strict=True)
    ]


def _shown(line: HistoryLine) -> tuple[str, ...]:
    return line.title, line.case, line.hardware


def _values(group: Group, fields: Sequence[str]) -> list[str]:
    """A group's values of the fields that distinguish lines of the same name; checksums are shortened."""
    values = []
    for field in fields[:_MOST_APART]:
        name, _, key = field.partition(".")
        value = group.identity[name].get(key, "") if key else group.identity[name]
        values.append(f"{field} {shown(value)[:_LONGEST] or 'none'}")
    return values


def table(lines: Sequence[HistoryLine], title: str) -> ReportTable:
    rows = []
    for line in lines:
        medians = [point[2] for point in line.points]
        change = f"{100 * (medians[-1] / medians[0] - 1):+.1f} %" if len(medians) > 1 and medians[0] > 0 else ""
        ends = (number(medians[0]), number(medians[-1]), change)
        rows.append((line.title, line.case, line.hardware, str(len(medians)), *ends, sparkline(medians)))
    columns = ("benchmark", "case", "machine", "runs", "first", "last", "change", "medians")
    notes = (
        f"{line.title} {line.case}: the runs differ in {some_of(line.apart)}, not only in code"
        for line in lines
        if line.apart
    )
    return ReportTable(title, "", columns, tuple(rows), tuple(notes), words=(0, 1, 2, 7), keys=3)


def sparkline(values: Sequence[float]) -> str:
    """A bar for each of the last 40 values; equal values give low bars."""
    last = values[-_MOST_BARS:]
    low, high = min(last), max(last)
    steps = len(_BARS) - 1
    return "".join(_BARS[round(steps * (value - low) / (high - low)) if high > low else 0] for value in last)


def _line(alike: Sequence[Group]) -> HistoryLine:
    first = alike[0].identity
    points = sorted((run.time, _origin(group.identity), run.samples) for group in alike for run in group.runs)
    return HistoryLine(
        f"{first['recipe']}:{first['variant']} {first['benchmark']} [{first['unit']}]",
        ", ".join(f"{name} {shown(value)}" for name, value in first["params"].items()),
        first["gpu"] or f"{first['cpu']}, {counted(first['threads'], 'thread')}",
        tuple((time, origin, statistics.median(samples)) for time, origin, samples in points),
        tuple(field for field in differing(alike) if field not in _CODE),
    )


def _origin(identity: Mapping[str, Any]) -> str:
    return commit_of(identity) if identity["commit"] else identity["image_digest"].removeprefix("sha256:")[:12]
