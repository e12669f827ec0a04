"""The requirements on the kernels and what was measured: a row a requirement, and the cells that fail it."""

import math
from typing import Callable, Dict, Iterable, List, NamedTuple, Sequence, Tuple

from .records import File, key_of

LONG = range(512, 1 << 30)

# A value and the name of its cell.
Value = Tuple[float, str]


class Requirement(NamedTuple):
    """Every value must be at least (or at most) `bound`."""

    name: str
    bound: float
    values: Callable[[File], Iterable[Value]]
    at_least: bool = True

    def accepts(self, value: float) -> bool:
        # Written so that a NaN fails.
        return value >= self.bound if self.at_least else value <= self.bound

    def text(self) -> str:
        return "%s %.2f" % (">=" if self.at_least else "<=", self.bound)


class Row(NamedTuple):
    requirement: Requirement
    values: Sequence[Value]  # worst first

    @property
    def failing(self) -> List[Value]:
        return [value for value in self.values if not self.requirement.accepts(value[0])]

    @property
    def holds(self) -> bool:
        return bool(self.values) and not self.failing


def not_judged(file: File) -> str:
    """Why a file is not judged, or ""."""
    on_gpu = any(str(cell.params["device"]).startswith("cuda") for cell in file.cells.values())
    return "it was measured on a GPU, and the requirements are limits for CPUs" if on_gpu else ""


def rows(file: File) -> List[Row]:
    return [Row(one, sorted(one.values(file), key=lambda value: _order(value[0], one.at_least))) for one in ALL]


def holds(file: File) -> bool:
    """Whether everything was measured and holds."""
    return not file.wrong and all(row.holds for row in rows(file))


def measured_on(file: File) -> str:
    """One sentence: the processor, the instruction set that the kernel uses, and torch."""
    about = file.environment
    device = about.get("device", {})
    place = (about.get("processor"), device.get("name"), device.get("capability"), about.get("torch"))
    return "Measured on %s (%s, %s) with torch %s." % place


def markdown(found: Sequence[Row]) -> str:
    """The table, then every failing cell."""
    table = [["requirement", "must be", "cells", "fail", "worst", "in"]]
    for row in found:
        value, label = row.values[0] if row.values else (math.nan, "not measured")
        counts = [str(len(row.values)), str(len(row.failing))]
        table.append([row.requirement.name, row.requirement.text(), *counts, "%.3f" % value, label])
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    lines = ["| %s |" % " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) for line in table]
    lines.insert(1, "|%s|" % "|".join("-" * (width + 2) for width in widths))
    for row in found:
        if row.failing:
            cells = ["%s: %.3f" % (label, value) for value, label in row.failing]
            lines += ["", "## Cells that fail: %s" % row.requirement.name, "", *("- " + cell for cell in cells)]
    return "\n".join(lines)


def speedups(impl: str = "ours", direction: str = "forward") -> Callable[[File], List[Value]]:
    """How many times as fast as the fastest rival, in every cell."""

    def values(file: File) -> List[Value]:
        found = []
        for cell in file.where(direction=direction):
            ratio = cell.speedup(impl)
            if ratio is not None:
                found.append((ratio, "%s, against %s" % (cell.label(), cell.best_other())))
        return found

    return values


def peak_shares(direction: str = "forward") -> Callable[[File], Iterable[Value]]:
    """The share of the measured raw peak, in long dense cells."""

    def values(file: File) -> Iterable[Value]:
        for cell in file.where(direction=direction, mask="none", seq=LONG):
            if "peak_share" in cell.records["ours"]:
                yield cell.records["ours"]["peak_share"], cell.label()

    return values


def over_kept_pairs(direction: str = "forward") -> Callable[[File], Iterable[Value]]:
    """A long masked cell's time over the time of the dense cell for as many pairs as the mask keeps."""

    def values(file: File) -> Iterable[Value]:
        work = {key_of(record["params"]): record["median"] for record in file.others.get("fused_attention.work", ())}
        for cell in file.where(direction=direction, seq=LONG):
            key, dense_key = key_of(cell.params), key_of(dict(cell.params, mask="none"))
            if key != dense_key and dense_key in file.cells:
                share = work[key] / work[dense_key]
                yield cell.median("ours") / (share * file.cells[dense_key].median("ours")), cell.label()

    return values


def error_ratios(metric: str) -> Callable[[File], Iterable[Value]]:
    """Ours over SDPA's by dtype and mask, each over all cases: the error of a single case is chance."""

    def values(file: File) -> Iterable[Value]:
        errors: Dict[Tuple[str, str], Dict[bool, List[float]]] = {}
        for record in file.others.get("fused_attention." + metric, ()):
            case = errors.setdefault((record["params"]["dtype"], record["params"]["mask"]), {})
            case.setdefault(record["impl"] == "ours", []).append(record["median"])
        for (dtype, mask), sides in errors.items():
            if len(sides) == 2:
                yield _size(metric, sides[True]) / _size(metric, sides[False]), "%s %s" % (dtype, mask)

    return values


def _size(metric: str, errors: List[float]) -> float:
    return max(errors) if metric == "max_error" else math.sqrt(sum(x * x for x in errors) / len(errors))


def _order(value: float, at_least: bool) -> float:
    """Worst first, and a NaN before all."""
    return -math.inf if math.isnan(value) else value if at_least else -value


# Rivals: SDPA by backend, the plain formula and compiled flex_attention, for the same mask and dtype.
ALL = (
    Requirement("times as fast as the fastest rival", 1.0, speedups()),
    Requirement("the same, packed", 1.0, speedups("ours-packed")),
    Requirement("share of the raw peak, dense, seq >= 512", 0.75, peak_shares()),
    Requirement("time / time of the kept pairs, masked, seq >= 512", 1.3, over_kept_pairs(), at_least=False),
    Requirement("backward: times as fast as the fastest rival", 1.0, speedups(direction="backward")),
    Requirement("backward: share of the raw peak, dense, seq >= 512", 0.6, peak_shares("backward")),
    Requirement(
        "backward: time / time of the kept pairs, masked, seq >= 512", 1.5, over_kept_pairs("backward"), at_least=False
    ),
    Requirement("root mean square error / SDPA's", 1.0, error_ratios("rms_error"), at_least=False),
    Requirement("largest error / SDPA's", 1.0, error_ratios("max_error"), at_least=False),
)
