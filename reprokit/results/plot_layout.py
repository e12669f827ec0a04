"""The look of the attention benchmark's plots: colours, panels, labels at the ends of lines, captions, files."""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reprokit.results.attention import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}

# Okabe and Ito's colours, which the colour-blind can distinguish. Two masks of a family share a colour and differ in
# dash and marker, so a print without colours is readable too.
INK, MUTED, FAINT = "#1a1a1a", "#6b6b6b", "#d9d9d9"
STYLES = {
    "none": (INK, True, "dense"),
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
SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",
    # Reproducible output.
    "svg.hashsalt": "reprokit",
    # A name with dollar signs is no formula.
    "text.parse_math": False,
}


def panels_of(cells: Sequence[Cell], width: float) -> tuple[Figure, dict[str, Axes]]:
    import matplotlib.pyplot as plt

    dtypes = [dtype for dtype in DTYPES if any(cell.dtype == dtype for cell in cells)]
    wide = max(width * len(dtypes), 8.0)
    figure, axes = plt.subplots(1, len(dtypes), figsize=(wide, 5.4), sharey=True, squeeze=False, dpi=150)
    return figure, dict(zip(dtypes, axes[0], strict=True))


def plain_ticks(axis: Any, ticks: Sequence[float], form: Callable[[float], str] = "{:g}".format) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(lambda value, _: form(value))
    axis.set_minor_locator(NullLocator())


def length(seq: float) -> str:
    return f"{seq / 1024:g}k" if seq >= 1024 and seq % 1024 == 0 else f"{seq:g}"


def label_ends(axes: Axes, ends: dict[str, tuple[float, float, str]]) -> None:
    """Write each line's name at its right end, moved just enough that names do not overlap."""
    if not ends:
        return
    pixels = axes.transData.transform
    height = axes.figure.dpi * 9 / 72 * 1.25
    wanted = sorted((pixels((x, y))[1], name) for name, (x, y, _) in ends.items())
    moved = apart([at for at, _ in wanted], height, *(pixels((1, y))[1] for y in axes.get_ylim()))
    for (at, name), to in zip(wanted, moved, strict=True):
        x, y, colour = ends[name]
        axes.annotate(
            name,
            (x, y),
            xytext=(20, (to - at) * 72 / axes.figure.dpi),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=9,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.5,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 4,
            },
        )


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The positions nearest to `wanted` (ascending) that are `gap` apart, between `low` and `high`.

    With i * gap subtracted from position i, the result need only ascend. So this is isotonic regression, which pools
    neighbours that are out of order.
    """
    pools: list[list[float]] = []  # neighbours that share a mean
    for i, place in enumerate(wanted):
        pools.append([place - i * gap])
        while len(pools) > 1 and statistics.fmean(pools[-2]) > statistics.fmean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    means = [statistics.fmean(pool) for pool in pools for _ in pool]
    room = high - gap * (len(wanted) - 0.5)
    return [max(low + gap / 2, min(mean, room)) + i * gap for i, mean in enumerate(means)]


def legend_of(figure: Figure, cells: Sequence[Cell]) -> None:
    from matplotlib.lines import Line2D

    present = {cell.mask for cell in cells}
    marks = [
        Line2D([], [], linestyle="", marker="o", markersize=5, mfc=c if first else "white", color=c, label=name)
        for mask, (c, first, name) in STYLES.items()
        if mask in present
    ]
    marks.append(
        Line2D([], [], linestyle="", marker="o", markersize=4, mfc="none", color="#a8a8a8", label="fastest alternative")
    )
    figure.legend(handles=marks, loc="lower center", ncols=6, frameon=False, fontsize=9, bbox_to_anchor=(0.5, 0.055))


def frame(figure: Figure, finding: str, what: str, about: str, legend: bool = False) -> None:
    """Write the finding at the top, what is compared below it, and the conditions at the bottom."""
    wide = 72 * 0.97 * figure.get_figwidth()
    texts: tuple[tuple[str, float, float, float, dict[str, Any]], ...] = (
        (finding, 0.975, 14.5, 0.62, {"color": INK, "fontweight": "bold"}),
        (what, 0.915, 10.0, 0.54, {"color": MUTED}),
    )
    for text, top, largest, letter, style in texts:
        # `letter`: a letter's approximate width, relative to the font size.
        figure.text(0.015, top, text, fontsize=min(largest, wide / (letter * len(text))), va="top", **style)
    figure.text(0.015, 0.015, about, fontsize=8.5, color=MUTED, va="bottom")
    # Room for the names right of each panel, which tight_layout does not see.
    right, between = (0.995, 2.0) if legend else (1 - 1.0 / figure.get_figwidth(), 9.5)
    figure.tight_layout(rect=(0.005, 0.15 if legend else 0.04, right, 0.885), w_pad=between)


def drawn(figure: Figure, stem: str) -> dict[str, bytes]:
    """The figure as PNG and SVG, by file name."""
    import matplotlib.pyplot as plt

    files = {}
    for suffix in (".png", ".svg"):
        stream = io.BytesIO()
        # Without a date, a file changes only with its figure.
        metadata = {"Date": None} if suffix == ".svg" else {"Software": None}
        figure.savefig(stream, format=suffix[1:], metadata=metadata)
        files[f"{stem}{suffix}"] = stream.getvalue()
    plt.close(figure)
    return files
