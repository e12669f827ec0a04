"""The limit of a measured time (compute, bandwidth or overhead), from counted work and measured peaks. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from reprokit.recipe.model import unit_factor

# Below this share of the roof, start-up, launches and waiting are the limit.
_OVERHEAD = 0.1
# Metrics that a program counts and measures besides its times. Other units are ignored.
UNITS = {".work": "GFLOP", ".traffic": "MB", "machine.peak": "GFLOP/s", "machine.bandwidth": "GB/s"}


class CountedMeasurement(Protocol):
    """Samples of one metric."""

    @property
    def metric(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def samples(self) -> tuple[float, ...]: ...
    @property
    def params(self) -> Mapping[str, Any]: ...


def limits(measured: Sequence[CountedMeasurement]) -> list[str]:
    """`compute`, `bandwidth`, `overhead`, or "" if unknown, for each measurement of one run.

    A program counts its work in metrics that end in `.work` (GFLOP) and `.traffic` (MB) with the parameters of the
    time, without `impl`, and measures `machine.peak` (GFLOP/s, by dtype) and `machine.bandwidth` (GB/s).
    """
    counted, roofs = _counted(measured), _roofs(measured)
    return [_limit(each, counted, roofs) for each in measured]


def peak_shares(measured: Sequence[CountedMeasurement]) -> list[float]:
    """The share of the machine's measured peak that each measurement of one run reaches, 0 if unknown."""
    counted, roofs = _counted(measured), _roofs(measured)
    shares = []
    for each in measured:
        work, _, seconds = _work(each, counted)
        peak = _roof(each, roofs, "machine.peak") if work and seconds > 0 else 0.0
        shares.append(work / seconds / peak if work and peak else 0.0)
    return shares


def is_constant(metric: str, unit: str) -> bool:
    """Whether a metric is a peak, a bandwidth, counted work or traffic instead of a time."""
    return unit in (UNITS.get(metric), UNITS.get(f".{metric.rpartition('.')[2]}"))


@dataclass(frozen=True)
class RooflinePoint:
    """A measured time of counted work: FLOP a byte of traffic, and GFLOP/s."""

    name: str
    intensity: float
    rate: float


def points(measured: Sequence[CountedMeasurement]) -> list[RooflinePoint]:
    """A point for each time whose work and traffic were counted."""
    counted = _counted(measured)
    points = []
    for time in measured:
        work, traffic, seconds = _work(time, counted)
        if work and traffic and seconds > 0:
            params = [f"{name}={value}" for name, value in time.params.items()]
            points.append(RooflinePoint(" ".join([time.metric, *params]), 1e3 * work / traffic, work / seconds))
    return points


def _roofs(measured: Sequence[CountedMeasurement]) -> list[CountedMeasurement]:
    return [each for each in measured if each.unit == UNITS.get(each.metric)]


def _counted(measured: Sequence[CountedMeasurement]) -> dict[tuple[str, str], float]:
    """Medians of counted work and traffic, by metric and case."""
    return {
        (each.metric, _case(each.params)): statistics.median(each.samples)
        for each in measured
        if each.unit == UNITS.get(f".{each.metric.rpartition('.')[2]}")
    }


def _work(
    time: CountedMeasurement, counted: Mapping[tuple[str, str], float]
) -> tuple[float | None, float | None, float]:
    """The counted work and traffic of a measured time, None if unknown, and its seconds, 0 for another unit."""
    prefix, case = time.metric.partition(".")[0], _case(time.params)
    seconds = statistics.median(time.samples) * (unit_factor(time.unit, "s") or 0.0)
    return counted.get((f"{prefix}.work", case)), counted.get((f"{prefix}.traffic", case)), seconds


def _limit(
    time: CountedMeasurement, counted: Mapping[tuple[str, str], float], roofs: Sequence[CountedMeasurement]
) -> str:
    work, traffic, seconds = _work(time, counted)
    peak, bandwidth = (_roof(time, roofs, name) for name in ("machine.peak", "machine.bandwidth"))
    if work is None or traffic is None or not peak or not bandwidth or seconds <= 0:
        return ""
    return limit(work / peak, traffic / 1e3 / bandwidth, seconds)


def _roof(time: CountedMeasurement, roofs: Sequence[CountedMeasurement], metric: str) -> float:
    """The highest roof that was measured with the parameters of the time, as far as both have them."""

    def alike(roof: CountedMeasurement) -> bool:
        shared = ({"dtype"} if metric == "machine.peak" else set()) | (roof.params.keys() & time.params.keys())
        return all(repr(roof.params.get(name)) == repr(time.params.get(name)) for name in shared)

    return max((statistics.median(roof.samples) for roof in roofs if roof.metric == metric and alike(roof)), default=0)


def limit(compute: float, memory: float, total: float) -> str:
    """The limit of a `total` time, from the minimum times of its computing and memory traffic at the peaks."""
    if max(compute, memory) < _OVERHEAD * total:
        return "overhead"
    return "compute" if compute >= memory else "bandwidth"


def _case(params: Mapping[str, Any]) -> str:
    return repr(sorted((name, repr(value)) for name, value in params.items() if name != "impl"))
