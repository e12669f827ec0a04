"""Plots of the attention benchmark, as PNG and SVG: speedups, and rates against the machine's roofline."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reprokit.errors import UsageError
from reprokit.results.attention import Cell, Measured
from reprokit.results.plot_layout import (
    DTYPES,
    INK,
    MUTED,
    SETTINGS,
    STYLES,
    drawn,
    frame,
    label_ends,
    legend_of,
    length,
    panels_of,
    plain_ticks,
)
from reprokit.results.plots import plotting

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MOST_BATCHES = 12


def draw(measured: Measured) -> dict[str, bytes]:
    """Draw speedup-batch-N for at most 12 batches, and roofline if the peaks were measured. Returns files by name.

    Raises UsageError if there is nothing to draw or matplotlib is missing.
    """
    if not measured.cells:
        raise UsageError(
            "there are no times of the attention benchmark to draw",
            hint="`reprokit bench fused-attention` measures some",
        )
    files: dict[str, bytes] = {}
    with plotting(SETTINGS):
        import matplotlib

        matplotlib.use("agg")
        for batch in sorted({cell.batch for cell in measured.cells})[:_MOST_BATCHES]:
            cells = [cell for cell in measured.cells if cell.batch == batch]
            files |= drawn(speedup(cells, batch, measured.about), f"speedup-batch-{batch}")
        if measured.bandwidth and any(cell.dtype in measured.peaks for cell in measured.cells):
            files |= drawn(roofline(measured), "roofline")
    return files


def speedup(cells: Sequence[Cell], batch: int, about: str) -> Figure:
    """Speedup by mask and length, one panel for each dtype; both axes are logarithmic."""
    figure, panels = panels_of(cells, width=4.6)
    values = [cell.speedup for cell in cells]
    low, high = min(0.8, *(v / 1.15 for v in values)), max(2.0, *(v * 1.25 for v in values))
    seqs = sorted({cell.seq for cell in cells})
    names: dict[str, dict[str, tuple[float, float, str]]] = {}
    for dtype, axes in panels.items():
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        axes.set_xlim(seqs[0] / 1.25, seqs[-1] * 1.25)
        axes.axhspan(low, 1, color="#f4f1ee", zorder=0)
        axes.axhline(1, color=INK, linewidth=1.4, zorder=1)
        axes.grid(True, axis="y", which="major")
        ratios = [t for t in (0.25, 0.5, 1, 2, 3, 5, 10, 20, 50, 100) if low <= t <= high]
        plain_ticks(axes.yaxis, ratios, "{:g}x".format)
        plain_ticks(axes.xaxis, [s for s in seqs if s & (s - 1) == 0] or seqs, length)
        axes.set_xlabel("sequence length")
        axes.set_title(DTYPES[dtype])
        ends: dict[str, tuple[float, float, str]] = {}
        for mask, (colour, first, name) in STYLES.items():
            line = sorted((c.seq, c.speedup) for c in cells if (c.dtype, c.mask) == (dtype, mask))
            if not line:
                continue
            axes.plot(
                *zip(*line, strict=True),
                color=colour,
                linewidth=2.2 if mask == "none" else 1.5,
                linestyle="-" if first else (0, (4, 2)),
                marker="o",
                markersize=4.5,
                markerfacecolor=colour if first else "white",
                zorder=4 if mask == "none" else 3,
            )
            ends[name] = (line[-1][0], line[-1][1], colour)
        names[dtype] = ends
    leftmost = next(iter(panels.values()))
    leftmost.set_ylabel("times as fast as the fastest alternative")
    leftmost.annotate(
        "slower", (seqs[0] / 1.2, 1), (0, -4), textcoords="offset points", va="top", color=MUTED, fontsize=9
    )
    frame(figure, _finding(cells, batch), _COMPARED, about)
    for dtype, axes in panels.items():
        label_ends(axes, names[dtype])
    return figure


def roofline(measured: Measured) -> Figure:
    """Useful work a second against useful work a byte, one panel for each dtype with a peak."""
    cells = [cell for cell in measured.cells if cell.dtype in measured.peaks]
    bandwidth = measured.bandwidth or 0.0
    figure, panels = panels_of(cells, width=4.3)
    # The limits come from the points, so that no part of the axes is empty.
    low, high = min(c.intensity for c in cells) / 1.5, max(c.intensity for c in cells) * 1.5
    bottom = min(min(c.rate() for c in cells), min(c.rate(c.best_other) for c in cells)) / 1.4
    top = max(max(measured.peaks.values()), max(c.rate() for c in cells)) * 1.6
    for dtype, axes in panels.items():
        peak, mine = measured.peaks[dtype], [c for c in cells if c.dtype == dtype]
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(low, high)
        axes.set_ylim(bottom, top)
        ridge = peak / bandwidth
        axes.plot([low, ridge, max(high, ridge)], [low * bandwidth, peak, peak], color=INK, linewidth=1.8, zorder=2)
        axes.annotate(
            f"{peak:.0f} GFLOP/s", (high, peak), (0, 4), textcoords="offset points", ha="right", color=INK, fontsize=9
        )
        axes.annotate(
            f"{bandwidth:.0f} GB/s",
            (low, max(low * bandwidth, bottom)),
            (6, -2),
            textcoords="offset points",
            va="top",
            color=INK,
            fontsize=9,
        )
        axes.scatter(
            [c.intensity for c in mine],
            [c.rate(c.best_other) for c in mine],
            s=13,
            facecolors="none",
            edgecolors="#a8a8a8",
            linewidths=0.7,
        )
        for mask, (colour, first, _) in STYLES.items():
            points = [c for c in mine if c.mask == mask]
            if points:
                axes.scatter(
                    [c.intensity for c in points],
                    [c.rate() for c in points],
                    s=20,
                    facecolors=colour if first else "white",
                    edgecolors=colour,
                    linewidths=1.1,
                    zorder=3,
                )
        plain_ticks(axes.yaxis, [t for t in (1, 3, 10, 30, 100, 300, 1000, 1e4, 1e5, 1e6) if bottom <= t <= top])
        plain_ticks(axes.xaxis, [t for t in (0.3, 1, 3, 10, 30, 100, 300, 1000, 3000) if low <= t <= high])
        axes.grid(True, which="major")
        axes.set_title(DTYPES[dtype])
        axes.set_xlabel("useful FLOP a byte of q, k, v and result")
    next(iter(panels.values())).set_ylabel("GFLOP/s of useful work")
    legend_of(figure, cells)
    theirs = [f"{100 * share:.0f} % in {name}" for name, share in _peak_shares(measured, ours=False)]
    what = f"The fastest alternatives reach {', '.join(theirs)}. {_ROOFS}" if theirs else _ROOFS
    frame(figure, _nearness(measured), what, measured.about, legend=True)
    return figure


_COMPARED = "In each case against the fastest of torch's SDPA (all backends), naive matmul and compiled flex_attention."
_ROOFS = "Work on masked pairs does not count. Short cases stay in cache, and may pass the roof of memory."


def _finding(cells: Sequence[Cell], batch: int) -> str:
    values = sorted(cell.speedup for cell in cells)
    slower = sum(value < 1 for value in values)
    middle = f"{_times(statistics.median(values))} in the median"
    if not slower:
        return f"Faster in every case of batch {batch}: {_times(values[0])} to {_times(values[-1])}, {middle}"
    return (
        f"Faster in {len(values) - slower} of {len(values)} cases of batch {batch}: "
        f"up to {_times(values[-1])}, {middle}, {_times(values[0])} at worst"
    )


def _nearness(measured: Measured) -> str:
    found = [f"{100 * share:.0f} % in {name}" for name, share in _peak_shares(measured, ours=True)]
    return "Of the raw peak, dense attention reaches " + ", ".join(found) if found else "Work under the machine's roofs"


def _peak_shares(measured: Measured, ours: bool) -> list[tuple[str, float]]:
    """The best share of the peak in dense cases by dtype, of ours or of the fastest rival."""
    return [
        (name, max(c.rate() if ours else c.rate(c.best_other) for c in dense) / measured.peaks[dtype])
        for dtype, name in DTYPES.items()
        if dtype in measured.peaks and (dense := [c for c in measured.cells if (c.dtype, c.mask) == (dtype, "none")])
    ]


def _times(value: float) -> str:
    return f"{value:.2g}x" if value < 10 else f"{value:.0f}x"
