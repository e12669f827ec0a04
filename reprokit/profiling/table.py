"""The most expensive kernels and functions of a profile as a table, with their share of the peaks. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from reprokit.compat.facts import bundled
from reprokit.compat.gpu import peaks_of
from reprokit.profiling.model import HotSpot, Summary
from reprokit.results.roofline import limit

KINDS: dict[Literal["gpu", "cpu"], str] = {"gpu": "GPU", "cpu": "CPU"}
_LONGEST = 90


@dataclass(frozen=True)
class Position:
    """`of_peak`: per cent of the data sheet's float32 peak; `limited_by`: `compute`, `bandwidth`, `overhead` or ""."""

    of_peak: float | None = None
    limited_by: str = ""


def positions(summary: Summary) -> list[Position]:
    """The position of each row. ncu measures both shares of the peaks; torch only counts the operators' work."""
    device = peaks_of(bundled(), summary.device) if summary.device else None
    return [_position(row, device.fp32 if device else None) for row in summary.rows]


def _position(row: HotSpot, fp32: float | None) -> Position:
    if row.compute is not None and row.memory is not None:
        return Position(limited_by=limit(row.compute, row.memory, 100.0))
    if row.rate is not None and row.on_gpu and fp32:
        return Position(of_peak=100 * row.rate / fp32)
    return Position()


def rows(
    summary: Summary, kind: Literal["gpu", "cpu"], most: int, counts: str
) -> tuple[list[str], list[list[str]]] | None:
    """Columns and cells of one kind, None if it has no rows; empty columns are omitted."""
    placed = [(row, at) for row, at in zip(summary.rows, positions(summary), strict=True) if row.kind == kind][:most]
    if not placed:
        return None
    every: dict[str, Callable[[HotSpot, Position], str]] = {
        "name": lambda row, at: row.name if len(row.name) <= _LONGEST else f"{row.name[: _LONGEST - 1]}…",
        counts: lambda row, at: "" if row.count is None else str(row.count),
        "ms": lambda row, at: "" if row.seconds is None else f"{1e3 * row.seconds:.3f}",
        "%": lambda row, at: _plain(summary.share(row)),
        "grid": lambda row, at: "x".join(map(str, row.grid)),
        "block": lambda row, at: "x".join(map(str, row.block)),
        "registers": lambda row, at: "" if row.registers is None else str(row.registers),
        "occupancy %": lambda row, at: _plain(row.occupancy),
        "GFLOP/s": lambda row, at: _plain(row.rate),
        "% of fp32 peak": lambda row, at: _plain(at.of_peak),
        "compute %": lambda row, at: _plain(row.compute),
        "memory %": lambda row, at: _plain(row.memory),
        "limited by": lambda row, at: at.limited_by,
    }
    columns = {name: [cell(row, at) for row, at in placed] for name, cell in every.items()}
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    return list(kept), [list(row) for row in zip(*kept.values(), strict=True)]


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
