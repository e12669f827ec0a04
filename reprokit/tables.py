"""Tables on standard output, by rich. They fit the terminal, and no cell is cut; a pipe gets them unfolded."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reprokit.untrusted.terminal import console, echo, escaped

Row = Sequence[str]
_GAP = 2
_FOLDED = 24  # longer words, such as paths, may be folded
_NO_TERMINAL = 1 << 16


@dataclass(frozen=True)
class ReportTable:
    """A table of one metric under one set of conditions. `rows` are as wide as `columns`.

    `words` are the indexes of columns of words, which are left-aligned. The first `keys` columns identify a row.
    """

    title: str
    conditions: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    words: tuple[int, ...] = ()
    keys: int = 1


def width(otherwise: int = _NO_TERMINAL) -> int:
    """The columns of the terminal; without a terminal, `otherwise`."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else otherwise


def table(columns: Row, rows: Iterable[Row], keys: int = 1, words: Collection[int] | None = None) -> None:
    """Print a table. The first `keys` columns identify a row, and stay whole if there is room.

    `words` are the columns of words, by default all, which are left-aligned. Cells fold between words, and long words
    such as paths anywhere. If the columns do not fit, each row becomes a paragraph.
    """
    from rich.table import Table
    from rich.text import Text

    cells = [tuple(escaped(text, lines=True) for text in row) for row in rows]
    screen = _screen()
    sizes = [screen.measure(Text("\n".join(column))) for column in zip(columns, *cells, strict=True)]
    least = [min(each.minimum, _FOLDED) for each in sizes]
    room = width() - _GAP * (len(columns) - 1)
    whole = keys if sum(each.maximum for each in sizes[:keys]) + sum(least[keys:]) <= room else 0
    if not whole and sum(least) > room:
        for number, row in enumerate(cells):
            if number:
                echo()
            pairs([(header, text) for header, text in zip(columns, row, strict=True) if text])
        return
    shown = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for number, header in enumerate(columns):
        justify: Literal["left", "right"] = "left" if words is None or number in words else "right"
        no_wrap = number < whole or sizes[number].maximum <= least[number]
        shown.add_column(header, overflow="fold", no_wrap=no_wrap, justify=justify)
    for row in cells:
        shown.add_row(*row)
    screen.print(shown, crop=False)


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and their values, which fold."""
    from rich.table import Table

    shown = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column(overflow="fold")
    for row in rows:
        shown.add_row(*row)
    _screen().print(shown)


def show_tables(tables: Sequence[ReportTable]) -> None:
    """Print tables of records. Conditions and notes that all of them share are printed once, at the end."""
    from rich.text import Text

    def dim(conditions: Sequence[str], notes: Sequence[str]) -> None:
        for line in filter(None, (", ".join(conditions), *notes)):
            _screen().print(Text(line, "dim"))

    screen = _screen()
    conditions = [each.conditions.split(", ") for each in tables]
    notes = [each.notes for each in tables]
    everywhere = (_common(conditions), _common(notes)) if len(tables) > 1 else ([], [])
    for each, where, what in zip(tables, conditions, notes, strict=True):
        screen.print(Text(each.title, "bold"), soft_wrap=True)
        table(each.columns, each.rows, each.keys, each.words)
        dim([part for part in where if part not in everywhere[0]], [note for note in what if note not in everywhere[1]])
        screen.print()
    if any(everywhere):
        screen.print(Text("all tables", "bold"))
        dim(*everywhere)


def paragraph(text: str, first: str = "", later: str = "") -> None:
    """Print `text` wrapped to the terminal (else 110 columns), its lines indented by `first` and `later`."""
    for line in textwrap.wrap(
        text,
        max(width(110), len(later) + 20),
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    ):
        echo(line)


def _screen() -> Any:
    screen = console()
    screen.size = (width(), 24)  # rich asks for both
    return screen


def _common(lists: Sequence[Sequence[str]]) -> list[str]:
    return [item for item in lists[0] if all(item in each for each in lists)]
