"""The roofline as a plot: GFLOP/s over FLOP a byte, with roofs of devices and points of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reprokit.results.plots import COLOURS, plotting, save, short
from reprokit.results.roofline import RooflinePoint

_MOST_NAMED = 12


@dataclass(frozen=True)
class Roof:
    """A device, or a type of number on it: GFLOP/s and GB/s."""

    name: str
    peak: float
    bandwidth: float


def draw_roofline(roofs: Sequence[Roof], points: Sequence[RooflinePoint], file: Path) -> None:
    """Draw into `file`, by its suffix. Raises UsageError if matplotlib is missing, EngineError."""
    with plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplots()
        ridges = [roof.peak / roof.bandwidth for roof in roofs]
        reached = [point.intensity for point in points]
        low, high = min([*ridges, *reached]) / 20, max([*ridges, *reached]) * 20
        for number, (roof, ridge) in enumerate(zip(roofs, ridges, strict=True)):
            label = f"{short(roof.name)}: {roof.peak:.4g} GFLOP/s, {roof.bandwidth:.4g} GB/s"
            line = [low * roof.bandwidth, roof.peak, roof.peak]
            axes.plot([low, ridge, high], line, label=label, color=COLOURS[number % len(COLOURS)])
        for point in points:
            axes.plot([point.intensity], [point.rate], marker="o", color="#6b6b6b", markersize=5)
        for point in points[:_MOST_NAMED]:
            axes.annotate(
                short(point.name),
                (point.intensity, point.rate),
                xytext=(5, -3),
                textcoords="offset points",
                fontsize=7,
            )
        axes.set(xscale="log", yscale="log")
        # The usual labels are formulas, which are not parsed.
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("FLOP a byte")
        axes.set_ylabel("GFLOP/s")
        axes.grid(True)
        axes.legend(frameon=False, fontsize=8, loc="lower right")
        save(figure, file)
