"""All plots, by matplotlib: of any benchmark for the report, of a metric over time, rooflines, sizes of images.

The report's plots are SVG with axes from the parameters of the records. Colours come from the page, for dark mode and
print. CSS shows the values of a point, and each line alone: plotly would add 4.5 MB of JavaScript to each page, which
could then no longer forbid scripts.
"""

from __future__ import annotations

import html
import io
import math
import re
import statistics
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.errors import UsageError
from reprokit.formatting import counted
from reprokit.host.disk import unwritable
from reprokit.image.sizes import SizedImage
from reprokit.installation import extra_command
from reprokit.results.history import HistoryLine
from reprokit.results.likeness import Group
from reprokit.results.roofline import RooflinePoint
from reprokit.results.tables import number, shown
from reprokit.untrusted.terminal import escaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which the colour-blind can distinguish; markers tell series apart in print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#AA4499", "#B8860B", "#56B4E9", "#6b6b6b", "#CC3311")
_MARKERS = "osD^vP*X"
# Placeholders for the page's own colours.
_INK, _GRID = "#010101", "#020202"
_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 10,
    "text.color": _INK, "axes.edgecolor": _INK, "axes.labelcolor": _INK, "xtick.color": _INK, "ytick.color": _INK,
    "axes.spines.top": False, "axes.spines.right": False, "grid.color": _GRID, "grid.linewidth": 0.6,
    "svg.fonttype": "none", "svg.hashsalt": "reprokit",
    # Dollar signs in names are no formula.
    "text.parse_math": False,
}  # fmt: skip
_LARGEST = 1e100  # on an axis
_MOST_SERIES, _MOST_PLOTS, _MOST_ROWS, _MOST_NAME = 8, 4, 24, 48
_WIDTH = 4.8  # inches: two fit side by side on a desktop
# Of the values that a page shows on request.
_SVG_DPI = 72
_RADIUS = 5
_MARGIN = 6.0
_LETTER = 6.8  # the width of a letter
# More points overlap.
_MOST_POINTS = 2000
_MOST_NAMED = 12
_GB = 1e9


@dataclass(frozen=True)
class Plot:
    """A plot as SVG for a page, its caption, and the names of its lines if it has several.

    Several plots of one metric share a caption; `panel` names the part in this plot.
    """

    svg: str
    caption: str
    lines: tuple[str, ...] = ()
    panel: str = ""


@dataclass(frozen=True)
class PlotPoint:
    """A point: its data, the number of its line, and the lines of its text."""

    x: float
    y: float
    line: int
    text: tuple[str, ...]


def plots(groups: Sequence[Group]) -> list[Plot]:
    """The plots of one metric under one set of conditions. Raises UsageError if matplotlib is missing."""
    with _plotting():
        return _plots(groups)


def _plots(groups: Sequence[Group]) -> list[Plot]:
    axis, along = _axes(groups)
    same = _constant(groups)
    if axis is None:
        rows = sorted(groups, key=_case)[:_MOST_ROWS]
        some = f"{len(rows)} of " if len(rows) < len(groups) else ""
        return [_rows(rows, same, _caption(groups, f"of {some}{counted(len(groups), 'case')}"))]
    series: dict[str, dict[str, list[Group]]] = {}
    for group in groups:
        if math.isnan(_at(group, axis)):
            continue
        params = group.identity["params"]
        by_panel = series.setdefault(_words(params, {axis, "impl", *along, *same}), {})
        by_panel.setdefault(shown(params.get("impl", "")), []).append(group)
    by = f"by {axis}" + (f" (points also differ in {', '.join(along)})" if along else "")
    if sum(map(len, series.values())) <= _MOST_SERIES:
        lines = {", ".join(filter(None, (i, text))): g for text, by_impl in series.items() for i, g in by_impl.items()}
        return [_lines(lines, (axis, *along), _caption(groups, by + _share(lines, groups)))]
    panels = sorted(series.items(), key=lambda item: (-sum(map(len, item[1].values())), item[0]))[:_MOST_PLOTS]
    drawn = []
    for panel, by_impl in panels:
        lines = dict(list(by_impl.items())[:_MOST_SERIES])
        share = _share(lines, groups)
        plot = _lines(lines, (axis, *along), _caption(groups, by if panel else by + share))
        drawn.append(replace(plot, panel=panel and panel + share))
    return drawn


def _share(lines: Mapping[str, Sequence[Group]], groups: Sequence[Group]) -> str:
    """The share of the cases in a plot, "" if it has all."""
    count = sum(map(len, lines.values()))
    return f"; {count} of {len(groups)} cases" if count < len(groups) else ""


def check_suffix(file: Path) -> None:
    """Raises UsageError if the file's suffix is no format of plots."""
    if file.suffix not in (".svg", ".png", ".pdf"):
        raise UsageError("a plot is a .svg, .png or .pdf file", str(file))


def _save(figure: Figure, file: Path) -> None:
    """Write a figure in the format of the file's suffix. Raises UsageError, EngineError."""
    check_suffix(file)
    try:
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    except OSError as error:
        raise unwritable(error, "the plot", file) from None


@contextmanager
def _plotting() -> Iterator[None]:
    """Draw with our settings. Raises UsageError if matplotlib is missing.

    Ignores warnings about letters without a glyph, which the reader's font may have.
    """
    try:
        import matplotlib
    except ImportError:
        raise UsageError("plots need matplotlib", hint=f"install it: `{extra_command('results')}`") from None
    with warnings.catch_warnings(), matplotlib.rc_context(_SETTINGS):
        warnings.simplefilter("ignore")
        yield


def _constant(groups: Sequence[Group]) -> set[str]:
    """The parameters that all groups share, which captions omit."""
    values: dict[str, list[str]] = {}
    for group in groups:
        for name, value in group.identity["params"].items():
            values.setdefault(name, []).append(repr(value))
    return {name for name, texts in values.items() if len(texts) == len(groups) and len(set(texts)) == 1}


def _axes(groups: Sequence[Group]) -> tuple[str | None, tuple[str, ...]]:
    """The number on the axis, None without one, and numbers that only change along the lines, such as a tuned size.

    The axis is the number that leaves the fewest lines, then the one with the most values. A number changes along the
    lines if without it there are fewer and longer lines, and no two points coincide.
    """
    every = [group.identity["params"] for group in groups]
    names = sorted({name for params in every for name in params})
    texts = [[repr(params[name]) if name in params else "" for name in names] for params in every]

    def combinations(*without: str) -> int:
        kept = [place for place, name in enumerate(names) if name not in without]
        return len({tuple(row[place] for place in kept) for row in texts})

    values = {name: {params[name] for params in every if _is_number(params.get(name))} for name in names}
    numbers = [name for name in names if name != "impl" and len(values[name]) > 1]
    if not numbers:
        return None, ()
    axis = min(numbers, key=lambda name: (combinations(name), -len(values[name])))
    along: tuple[str, ...] = ()
    for name in numbers:
        fewer = combinations(axis, *along, name) < combinations(axis, *along)
        if name != axis and fewer and combinations(*along, name) == len(groups):
            along += (name,)
    return axis, along


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _lines(series: dict[str, list[Group]], names: Sequence[str], caption: str) -> Plot:
    """A plot of lines. The first of `names` is the axis, the others are shown with each point."""
    from matplotlib.figure import Figure

    axis = names[0]

    figure = Figure(figsize=(_WIDTH, 3.2), layout="constrained")
    axes = figure.subplots()
    spots = []
    for place, (name, groups) in enumerate(series.items()):
        points = [(_at(group, axis), group) for group in sorted(groups, key=lambda group: _at(group, axis))]
        xs = [x for x, _ in points]
        ys = [group.median for _, group in points]
        spreads = [_quartiles(group) for _, group in points]
        below = [max(0.0, y - low) for y, (low, _) in zip(ys, spreads, strict=True)]
        above = [max(0.0, high - y) for y, (_, high) in zip(ys, spreads, strict=True)]
        drawn = axes.errorbar(xs, ys, yerr=[below, above], label=_short(name), capsize=2, **_style(place))
        for artist in (drawn.lines[0], *drawn.lines[1], *drawn.lines[2]):
            artist.set_gid(_line_id(place))
        for x, group in points:
            params = {key: value for key, value in group.identity["params"].items() if key in names}
            spots.append(_spot(x, group.median, place, name, _words(params), group))
    _scales(axes, [(spot.x, spot.y) for spot in spots])
    identity = next(iter(series.values()))[0].identity
    axes.set_xlabel(_short(axis))
    axes.set_ylabel(_short(f"{identity['metric']} [{identity['unit']}]"))
    axes.grid(True, axis="y")
    if len(series) > 1 or next(iter(series)):
        axes.legend(frameon=False, fontsize=8)
    return _drawn(figure, axes, spots, caption, [_short(name) or "others" for name in series])


def _rows(groups: Sequence[Group], same: set[str], caption: str) -> Plot:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, 1.2 + 0.3 * len(groups)), layout="constrained")
    axes = figure.subplots()
    hidden = same if len(groups) > 1 else ()
    names = [_words(group.identity["params"], hidden) for group in groups]
    spots = []
    for place, (name, group) in enumerate(zip(names, groups, strict=True)):
        low, high = _quartiles(group)
        axes.plot([low, high], [place, place], color=_COLOURS[0], linewidth=3)
        axes.plot([group.median], [place], color=_COLOURS[0], marker="o")
        spots.append(_spot(group.median, place, 0, "", name, group))
    axes.set_yticks(range(len(groups)), [_short(name) or "all" for name in names])
    axes.invert_yaxis()
    identity = groups[0].identity
    axes.set_xlabel(_short(f"{identity['metric']} [{identity['unit']}]"))
    axes.grid(True, axis="x")
    return _drawn(figure, axes, spots, caption, [])


def _spot(x: float, y: float, line: int, name: str, case: str, group: Group) -> PlotPoint:
    low, high = _quartiles(group)
    count = len(group.samples)
    spread = f" ({number(low)}..{number(high)})" if count > 1 else ""
    value = f"{number(group.median)} {group.identity['unit']}{spread}, {counted(count, 'sample')}"
    about = ", ".join(_short(text) for text in (name, case) if text)
    return PlotPoint(x, y, line, (value, about) if about else (value,))


def _scales(axes: Any, points: Sequence[tuple[float, float]]) -> None:
    """Logarithmic if all values are positive and span more than a factor of 20."""
    from matplotlib.ticker import NullFormatter

    for values, name in (([x for x, _ in points], "x"), ([y for _, y in points], "y")):
        if min(values) > 0 and max(values) > 20 * min(values):
            axes.set(**{f"{name}scale": "log"})
            axis = getattr(axes, f"{name}axis")
            # The usual labels are formulas, which are not parsed.
            axis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set_minor_formatter(NullFormatter())


def _drawn(figure: Figure, axes: Axes, spots: Sequence[PlotPoint], caption: str, lines: Sequence[str]) -> Plot:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]
    # Other figures of a page have the same names.
    svg = re.sub(r' id="[A-Za-z0-9]+_[0-9]+"', "", svg).replace(_INK, "var(--ink)").replace(_GRID, "var(--line)")
    svg = re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return Plot(_with_values(svg, figure, axes, spots), caption, tuple(lines) if len(lines) > 1 else ())


def _at(group: Group, axis: str) -> float:
    value = group.identity["params"].get(axis)
    return float(value) if _is_number(value) else math.nan


def _quartiles(group: Group) -> tuple[float, float]:
    samples = group.samples
    if len(samples) < 2:
        return samples[0], samples[0]
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, high


def _style(number: int) -> dict[str, Any]:
    return {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKERS[number % len(_MARKERS)], "markersize": 4}


def _caption(groups: Sequence[Group], what: str) -> str:
    identity = groups[0].identity
    return f"{identity['benchmark']}: {identity['metric']} [{identity['unit']}], medians and quartiles {what}"


def _case(group: Group) -> str:
    return _words(group.identity["params"])


def _words(params: Mapping[str, Any], without: Collection[str] = ()) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in params.items() if name not in without)


def _short(text: str) -> str:
    """A label of at most 48 characters."""
    text = escaped(text)
    return text if len(text) <= _MOST_NAME else f"{text[: _MOST_NAME - 1]}…"


def _line_id(number: int) -> str:
    """The `gid` of a line's artists."""
    return f"line-{number}"


def _with_values(svg: str, figure: Figure, axes: Axes, points: Sequence[PlotPoint]) -> str:
    """The SVG of `axes` with a spot over each point that shows its text, and with lines as classes `l0`, `l1`, ...

    The axes must have been drawn, as this fixes the positions of points.
    """
    for line in {point.line for point in points}:
        svg = svg.replace(f' id="{_line_id(line)}"', f' class="l{line}"')
    spots = [_point_svg(figure, axes, point) for point in points[:_MOST_POINTS]]
    head, end, _ = svg.rpartition("</svg>")
    return f'{head}<g class="values">{"".join(spots)}</g>{end}\n'


def _point_svg(figure: Figure, axes: Axes, point: PlotPoint) -> str:
    scale = _SVG_DPI / figure.dpi
    width, height = (_SVG_DPI * inches for inches in figure.get_size_inches())
    x, y = (scale * float(place) for place in axes.transData.transform((point.x, point.y)))
    y = height - y
    first = y - 22 if y > 36 else y + 20
    most = int((width - 2 * _MARGIN) / _LETTER)
    lines = [text if len(text) <= most else f"{text[: most - 1]}…" for text in point.text]
    half = _LETTER / 2 * max(map(len, lines))
    left = max(_MARGIN, min(x - half, width - 2 * half - _MARGIN))
    texts = "".join(
        f'<text x="{left:.1f}" y="{first + 13 * row:.1f}">{html.escape(escaped(text))}</text>'
        for row, text in enumerate(lines)
    )
    return f'<g class="l{point.line}"><circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}"/>{texts}</g>'


def draw_history(lines: Sequence[HistoryLine], metric: str, file: Path) -> int:
    """Draw medians over runs into `file`, by its suffix; returns how many lines are too many for it.

    Each benchmark and unit has axes of its own. Raises UsageError, EngineError.
    """
    by_title: dict[str, list[HistoryLine]] = {}
    for line in lines:
        by_title.setdefault(line.title, []).append(line)
    panels = {title: alike[:_MOST_SERIES] for title, alike in list(by_title.items())[:_MOST_PLOTS]}
    with _plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 4.5 * len(panels)), layout="constrained")
        for axes, (title, alike) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels.items(), strict=True):
            for number, line in enumerate(alike):
                values = [median for _, _, median in line.points]
                label = _short(f"{line.case} {line.hardware}")
                axes.plot(range(1, len(values) + 1), values, label=label, **_style(number))
            axes.set_title(_short(title))
            axes.set_xlabel("run")
            axes.set_ylabel(_short(metric))
            axes.grid(True, axis="y")
            axes.legend(frameon=False, fontsize=8)
        _save(figure, file)
    return len(lines) - sum(map(len, panels.values()))


@dataclass(frozen=True)
class Roof:
    """The GFLOP/s and GB/s of a device, or of a number type on it."""

    name: str
    peak: float
    bandwidth: float


def draw_roofline(roofs: Sequence[Roof], points: Sequence[RooflinePoint], file: Path) -> None:
    """Draw into `file`, by its suffix. Raises UsageError if matplotlib is missing, EngineError."""
    with _plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplots()
        ridges = [roof.peak / roof.bandwidth for roof in roofs]
        reached = [point.intensity for point in points]
        low, high = min([*ridges, *reached]) / 20, max([*ridges, *reached]) * 20
        for number, (roof, ridge) in enumerate(zip(roofs, ridges, strict=True)):
            label = f"{_short(roof.name)}: {roof.peak:.4g} GFLOP/s, {roof.bandwidth:.4g} GB/s"
            line = [low * roof.bandwidth, roof.peak, roof.peak]
            axes.plot([low, ridge, high], line, label=label, color=_COLOURS[number % len(_COLOURS)])
        for point in points:
            axes.plot([point.intensity], [point.rate], marker="o", color="#6b6b6b", markersize=5)
        for point in points[:_MOST_NAMED]:
            axes.annotate(
                _short(point.name),
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
        _save(figure, file)


def draw_sizes(images: Sequence[SizedImage], file: Path) -> None:
    """Draw bars of blocks in GB into `file`, by its suffix. Shared parts are hatched.

    Raises UsageError if matplotlib is missing, EngineError if the file cannot be written.
    """
    with _plotting():
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch

        blocks = list(dict.fromkeys(block for image in images for block in image.blocks))
        colours = {block: _COLOURS[number % len(_COLOURS)] for number, block in enumerate(blocks)}
        figure = Figure(figsize=(9, 1.6 + 0.5 * len(images)), layout="constrained")
        axes = figure.subplots()
        for place, image in enumerate(images):
            common = max((image.shared(other) for other in images if other is not image), key=len, default=())
            left = 0.0
            for number, (block, count) in enumerate(image.steps):
                hatch = "///" if number < len(common) else ""
                axes.barh(place, count / _GB, left=left, color=colours[block], hatch=hatch, edgecolor="white")
                left += count / _GB
        axes.set_yticks(range(len(images)), [escaped(image.name) for image in images])
        axes.invert_yaxis()
        axes.set_xlabel("GB")
        axes.grid(True, axis="x")
        marks = [Patch(facecolor=colour, label=escaped(block)) for block, colour in colours.items()]
        marks.append(Patch(facecolor="white", edgecolor="#6b6b6b", hatch="///", label="in another image too"))
        axes.legend(handles=marks, frameon=False, fontsize=8, ncols=1, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        _save(figure, file)
