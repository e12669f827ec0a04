"""What a plot of the report shows on request: the values of a point, and each line alone. It takes CSS, and no script.

A library such as plotly would add 4.5 MB and JavaScript to each page, which could then forbid scripts no longer.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprokit.untrusted.text import escaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SVG_DPI = 72
_RADIUS = 5
_MARGIN = 6.0
_LETTER = 6.8  # the width of a letter
# More points than this lie on each other.
_MOST = 2000


@dataclass(frozen=True)
class PlotPoint:
    """A point by its data, the number of its line, and what it says, a line each."""

    x: float
    y: float
    line: int
    text: tuple[str, ...]


def line_id(number: int) -> str:
    """The `gid` of a line's artists."""
    return f"line-{number}"


def with_values(svg: str, figure: Figure, axes: Axes, points: Sequence[PlotPoint]) -> str:
    """The SVG of `axes` with a spot over each point, which shows its text, and with lines as classes `l0`, `l1`, ...

    The axes were drawn, so the places of their points are known.
    """
    for number in {point.line for point in points}:
        svg = svg.replace(f' id="{line_id(number)}"', f' class="l{number}"')
    spots = [_spot(figure, axes, point) for point in points[:_MOST]]
    head, end, _ = svg.rpartition("</svg>")
    return f'{head}<g class="values">{"".join(spots)}</g>{end}\n'


def _spot(figure: Figure, axes: Axes, point: PlotPoint) -> str:
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
