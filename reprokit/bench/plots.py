"""Plots of the attention benchmark as PNG and SVG: the speedup, and the share of the machine's peak."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.bench.attention import Cell, Measured
from reprokit.errors import EngineError, UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}

# Okabe and Ito's colours, which suit colour-blind readers. By mask: colour, solid or not, name. Two masks of a family
# share a colour and differ in dash and marker, so that a print without colours is readable too.
_INK, _MUTED, _FAINT, _OTHERS = "#1a1a1a", "#6b6b6b", "#d9d9d9", "#a8a8a8"
_STYLES = {
    "none": (_INK, True, "dense"),
    "causal": ("#0072B2", True, "causal"),
    "prefix": ("#0072B2", False, "prefix"),
    "window": ("#D55E00", True, "window"),
    "dilated": ("#D55E00", False, "dilated"),
    "longformer": ("#009E73", True, "Longformer"),
    "bigbird": ("#009E73", False, "BigBird"),
    "strided": ("#AA4499", True, "strided"),
    "fixed": ("#AA4499", False, "fixed"),
    "padding": ("#B8860B", True, "padding"),
    "documents": ("#B8860B", False, "documents"),
}
_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.5,
    "axes.edgecolor": _MUTED,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "grid.color": _FAINT,
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",
    # Without a salt the same records would give other bytes.
    "svg.hashsalt": "reprokit",
}


def draw(measured: Measured, folder: Path) -> list[Path]:
    """Draw all figures that the cells allow: speedup-batch-N and roofline. Returns the files written.

    Raises UsageError where there is nothing to draw or matplotlib is missing, EngineError where `folder` cannot be
    written.
    """
    if not measured.cells:
        raise UsageError(
            "there are no times of the attention benchmark to draw",
            hint="`reprokit bench fused-attention` measures some",
        )
    try:
        import matplotlib
    except ImportError:
        raise UsageError("plots need matplotlib", hint='install it: pip install "reprokit[plots]"') from None
    matplotlib.use("agg")
    written = []
    with matplotlib.rc_context(_SETTINGS):
        for batch in sorted({cell.batch for cell in measured.cells}):
            cells = [cell for cell in measured.cells if cell.batch == batch]
            written += _save(speedup(cells, batch, measured.about), folder / f"speedup-batch-{batch}")
        if measured.peaks and measured.bandwidth:
            written += _save(roofline(measured), folder / "roofline")
    return written


def speedup(cells: Sequence[Cell], batch: int, about: str) -> Figure:
    """Speedup by mask and length, a panel a dtype; both axes are logarithmic."""
    figure, panels = _panels(cells, width=4.6)
    values = [cell.speedup for cell in cells]
    low, high = min(0.8, *(v / 1.15 for v in values)), max(2.0, *(v * 1.25 for v in values))
    seqs = sorted({cell.seq for cell in cells})
    ends: dict[str, dict[str, tuple[float, float, str]]] = {}
    for dtype, axes in panels.items():
        _log_axes(axes, dtype, (seqs[0] / 1.25, seqs[-1] * 1.25), (low, high))
        axes.set_xscale("log", base=2)
        axes.axhspan(low, 1, color="#f4f1ee", zorder=0)
        axes.axhline(1, color=_INK, linewidth=1.4, zorder=1)
        axes.grid(True, axis="y", which="major")
        _plain_ticks(
            axes.yaxis, [t for t in (0.25, 0.5, 1, 2, 3, 5, 10, 20, 50, 100) if low <= t <= high], "{:g}x".format
        )
        _plain_ticks(axes.xaxis, [s for s in seqs if s & (s - 1) == 0] or seqs, _length)
        axes.set_xlabel("sequence length")
        ends[dtype] = {}
        for mask, (colour, filled, name) in _STYLES.items():
            line = sorted((c.seq, c.speedup) for c in cells if (c.dtype, c.mask) == (dtype, mask))
            if not line:
                continue
            axes.plot(
                *zip(*line, strict=True),
                color=colour,
                linewidth=2.2 if mask == "none" else 1.5,
                linestyle="-" if filled else (0, (4, 2)),
                marker="o",
                markersize=4.5,
                markerfacecolor=colour if filled else "white",
                zorder=4 if mask == "none" else 3,
            )
            ends[dtype][name] = (*line[-1], colour)
    leftmost = next(iter(panels.values()))
    leftmost.set_ylabel("times as fast as the fastest alternative")
    _note(leftmost, "slower", (seqs[0] / 1.2, 1), (0, -4), va="top", color=_MUTED)
    _frame(figure, _finding(cells, batch), _COMPARED, about)
    for dtype, axes in panels.items():
        _label_ends(axes, ends[dtype])
    return figure


def roofline(measured: Measured) -> Figure:
    """Useful work a second against useful work a byte, a panel for each dtype with a measured peak."""
    cells = [cell for cell in measured.cells if cell.dtype in measured.peaks]
    bandwidth = measured.bandwidth or 0.0
    figure, panels = _panels(cells, width=4.3)
    # Limits from the cells alone: a single token does so little work that its roof would be mostly empty paper.
    low, high = min(c.intensity for c in cells) / 1.5, max(c.intensity for c in cells) * 1.5
    bottom = min(min(c.rate() for c in cells), min(c.rate(c.best_other) for c in cells)) / 1.4
    top = max(max(measured.peaks.values()), max(c.rate() for c in cells)) * 1.6
    for dtype, axes in panels.items():
        peak, mine = measured.peaks[dtype], [c for c in cells if c.dtype == dtype]
        _log_axes(axes, dtype, (low, high), (bottom, top))
        ridge = peak / bandwidth
        axes.plot([low, ridge, max(high, ridge)], [low * bandwidth, peak, peak], color=_INK, linewidth=1.8, zorder=2)
        _note(axes, f"{peak:.0f} GFLOP/s", (high, peak), (0, 4), ha="right", color=_INK)
        _note(axes, f"{bandwidth:.0f} GB/s", (low, max(low * bandwidth, bottom)), (6, -2), va="top", color=_INK)
        x, y = [c.intensity for c in mine], [c.rate(c.best_other) for c in mine]
        axes.scatter(x, y, s=13, facecolors="none", edgecolors=_OTHERS, linewidths=0.7)
        for mask, (colour, filled, _) in _STYLES.items():
            points = [(c.intensity, c.rate()) for c in mine if c.mask == mask]
            if points:
                x, y = map(list, zip(*points, strict=True))
                face = colour if filled else "white"
                axes.scatter(x, y, s=20, facecolors=face, edgecolors=colour, linewidths=1.1, zorder=3)
        _plain_ticks(axes.yaxis, [t for t in (1, 3, 10, 30, 100, 300, 1000, 1e4, 1e5, 1e6) if bottom <= t <= top])
        _plain_ticks(axes.xaxis, [t for t in (0.3, 1, 3, 10, 30, 100, 300, 1000, 3000) if low <= t <= high])
        axes.grid(True, which="major")
        axes.set_xlabel("useful FLOP a byte of q, k, v and result")
    next(iter(panels.values())).set_ylabel("GFLOP/s of useful work")
    _legend(figure, cells)
    theirs = [f"{100 * share:.0f} % in {name}" for name, share in _peak_shares(measured, ours=False)]
    what = f"The fastest alternatives reach {', '.join(theirs)}. {_ROOFS}" if theirs else _ROOFS
    _frame(figure, _nearness(measured), what, measured.about, legend=True)
    return figure


_COMPARED = "In each case against the fastest of torch's SDPA (all backends), naive matmul and compiled flex_attention."
_ROOFS = "Work on masked pairs does not count. Short cases stay in cache and may exceed the memory roof."


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
    """The best share of the peak in dense cases by dtype, for ours or for the fastest alternative."""
    return [
        (name, max(c.rate() if ours else c.rate(c.best_other) for c in dense) / measured.peaks[dtype])
        for dtype, name in DTYPES.items()
        if dtype in measured.peaks and (dense := [c for c in measured.cells if (c.dtype, c.mask) == (dtype, "none")])
    ]


def _times(value: float) -> str:
    return f"{value:.2g}x" if value < 10 else f"{value:.0f}x"


def _panels(cells: Sequence[Cell], width: float) -> tuple[Figure, dict[str, Axes]]:
    import matplotlib.pyplot as plt

    dtypes = [dtype for dtype in DTYPES if any(cell.dtype == dtype for cell in cells)]
    wide = max(width * len(dtypes), 8.0)
    figure, axes = plt.subplots(1, len(dtypes), figsize=(wide, 5.4), sharey=True, squeeze=False, dpi=150)
    return figure, dict(zip(dtypes, axes[0], strict=True))


def _log_axes(axes: Axes, dtype: str, across: tuple[float, float], up: tuple[float, float]) -> None:
    axes.set_title(DTYPES[dtype])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*across)
    axes.set_ylim(*up)


def _note(axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    axes.annotate(text, at, offset, textcoords="offset points", fontsize=9, **style)


def _plain_ticks(axis: Any, ticks: Sequence[float], form: Callable[[float], str] = "{:g}".format) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(lambda value, _: form(value))
    axis.set_minor_locator(NullLocator())


def _length(seq: float) -> str:
    return f"{seq / 1024:g}k" if seq >= 1024 and seq % 1024 == 0 else f"{seq:g}"


def _label_ends(axes: Axes, ends: dict[str, tuple[float, float, str]]) -> None:
    """Name each line at its right end, moved as little as possible to keep the names apart."""
    if not ends:
        return
    pixels = axes.transData.transform
    height = axes.figure.dpi * 9 / 72 * 1.25
    positions = sorted((pixels((x, y))[1], name) for name, (x, y, _) in ends.items())
    moved = _apart([at for at, _ in positions], height, *(pixels((1, y))[1] for y in axes.get_ylim()))
    for (at, name), to in zip(positions, moved, strict=True):
        x, y, colour = ends[name]
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.5, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 4}
        offset = (20, (to - at) * 72 / axes.figure.dpi)
        _note(axes, name, (x, y), offset, va="center", color=colour, annotation_clip=False, arrowprops=line)


def _apart(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The positions nearest to `positions` (ascending) that are `gap` apart, between `low` and `high`.

    With `i * gap` subtracted from the i-th position this is isotonic regression: pool neighbours that are out of order.
    """
    pools: list[list[float]] = []  # neighbours that share a mean
    for i, position in enumerate(positions):
        pools.append([position - i * gap])
        while len(pools) > 1 and statistics.fmean(pools[-2]) > statistics.fmean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    means = [statistics.fmean(pool) for pool in pools for _ in pool]
    room = high - gap * (len(positions) - 0.5)
    return [max(low + gap / 2, min(mean, room)) + i * gap for i, mean in enumerate(means)]


def _legend(figure: Figure, cells: Sequence[Cell]) -> None:
    from matplotlib.lines import Line2D

    present = {cell.mask for cell in cells}
    styles = [(c, c if filled else "white", name) for mask, (c, filled, name) in _STYLES.items() if mask in present]
    marks = [
        Line2D([], [], linestyle="", marker="o", markersize=5, mfc=face, color=colour, label=name)
        for colour, face, name in [*styles, (_OTHERS, "none", "fastest alternative")]
    ]
    figure.legend(handles=marks, loc="lower center", ncols=6, frameon=False, fontsize=9, bbox_to_anchor=(0.5, 0.055))


def _frame(figure: Figure, finding: str, what: str, about: str, legend: bool = False) -> None:
    """Put the finding and the comparison above the panels, and the conditions below them."""
    wide = 72 * 0.97 * figure.get_figwidth()
    texts: tuple[tuple[str, float, float, float, dict[str, Any]], ...] = (
        (finding, 0.975, 14.5, 0.62, {"color": _INK, "fontweight": "bold"}),
        (what, 0.915, 10.0, 0.54, {"color": _MUTED}),
    )
    for text, top, largest, letter, style in texts:
        # `letter` is the mean width of a letter as a share of the font size.
        figure.text(0.015, top, text, fontsize=min(largest, wide / (letter * len(text))), va="top", **style)
    figure.text(0.015, 0.015, about, fontsize=8.5, color=_MUTED, va="bottom")
    # Room for the names of lines right of each panel, which tight_layout ignores.
    right, between = (0.995, 2.0) if legend else (1 - 1.0 / figure.get_figwidth(), 9.5)
    figure.tight_layout(rect=(0.005, 0.15 if legend else 0.04, right, 0.885), w_pad=between)


def _save(figure: Figure, stem: Path) -> list[Path]:
    import matplotlib.pyplot as plt

    files = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        for file in files:
            # Without a date a file only changes with its figure.
            figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else {"Software": None})
    except OSError as error:
        raise EngineError(f"the plot could not be written: {error.strerror or error}", str(stem.parent)) from None
    finally:
        plt.close(figure)
    return files
