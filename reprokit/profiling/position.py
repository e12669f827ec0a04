"""Where each row of a profile is below the roofline, as far as its work was counted. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.compat.facts import bundled
from reprokit.compat.peaks import peaks_of
from reprokit.profiling.model import HotSpot, Summary
from reprokit.results.roofline import limit


@dataclass(frozen=True)
class Position:
    """`of_peak`: per cent of the data sheet's float32 peak; `limited_by`: `compute`, `bandwidth`, `overhead` or ""."""

    of_peak: float | None = None
    limited_by: str = ""


def positions(summary: Summary) -> list[Position]:
    """One for each row. ncu measures both shares of the peaks itself; torch only counts the operators' work."""
    device = peaks_of(bundled(), summary.device) if summary.device else None
    return [_position(row, device.fp32 if device else None) for row in summary.rows]


def _position(row: HotSpot, fp32: float | None) -> Position:
    if row.compute is not None and row.memory is not None:
        return Position(limited_by=limit(row.compute, row.memory, 100.0))
    if row.rate is not None and row.on_gpu and fp32:
        return Position(of_peak=100 * row.rate / fp32)
    return Position()
