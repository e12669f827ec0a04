"""Tables on standard output. They fit the terminal, and no cell is cut. A file or a pipe gets them unfolded."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.untrusted.text import console, echo, escaped

Row = Sequence[str]
_GAP = 2
_FOLDED = 24  # longer words may be folded, such as paths
_NO_TERMINAL = 1 << 16


@dataclass(frozen=True)
class ReportTable:
    """A table of one metric under one set of conditions. `rows` are as wide as `columns`.

    `words` are the numbers of the columns with words, which are left-aligned. The first `keys` columns identify a row.
    """

    title: str
    conditions: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    words: tuple[int, ...] = ()
    keys: int = 1


def width(otherwise: int = _NO_TERMINAL) -> int:
    """The columns of the terminal; without one, `otherwise`."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else otherwise


def table(columns: Row, rows: Iterable[Row], keys: int = 1, words: Collection[int] | None = None) -> None:
    """Print a table. The first `keys` columns identify a row.

    `words` are the columns of words, by default all: they are left-aligned, and fold if the terminal is narrow.
    Where that is not enough, columns of numbers continue in a table below, and rows of words become paragraphs.
    """
    found = [tuple(escaped(text, lines=True) for text in row) for row in rows]
    texts = range(len(columns)) if words is None else words
    natural = [max(_widest(text, "\n") for text in column) for column in zip(columns, *found, strict=True)]
    folded = [
        max(_widest(header), *(min(_FOLDED, _widest(row[i])) for row in found), 1) for i, header in enumerate(columns)
    ]
    least = [min(natural[i], folded[i]) if i in texts and i >= keys else natural[i] for i in range(len(columns))]
    if _total(least) > width():
        least = [min(least[i], folded[i]) if i in texts else least[i] for i in range(len(columns))]
    parts = list(_parts(least, keys))
    too_wide = any(_total([least[i] for i in part]) > width() for part in parts)
    if too_wide or (len(parts) > 1 and len(texts) == len(columns)):
        for number, row in enumerate(found):
            if number:
                echo()
            pairs([(header, text) for header, text in zip(columns, row, strict=True) if text])
        return
    for number, part in enumerate(parts):
        if number:
            echo()
        _print(part, columns, found, texts, _shared(part, least, natural))


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


def paragraph(text: str, first: str = "", rest: str = "") -> None:
    """Print `text` wrapped to the terminal, its lines indented by `first` and `rest`. Without one, to 110 columns."""
    for line in textwrap.wrap(
        text,
        max(width(110), len(rest) + 20),
        initial_indent=first,
        subsequent_indent=rest,
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


def _widest(text: str, separator: str | None = None) -> int:
    """The columns of the widest line, or of the widest word."""
    from rich.cells import cell_len

    return max((cell_len(part) for part in text.split(separator)), default=0)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _parts(least: Sequence[int], keys: int) -> Iterator[list[int]]:
    """The columns of each table: the keys, and as many others as fit beside them."""
    part = list(range(keys))
    for i in range(keys, len(least)):
        if len(part) > keys and _total([least[j] for j in (*part, i)]) > width():
            yield part
            part = list(range(keys))
        part.append(i)
    yield part


def _shared(part: Sequence[int], least: Sequence[int], natural: Sequence[int]) -> list[int]:
    """The width of each column: what the terminal has beyond the least goes to those that need the least more."""
    found = {i: least[i] for i in part}
    left = width() - _total(list(found.values()))
    needy = sorted((i for i in part if natural[i] > least[i]), key=lambda i: natural[i] - least[i])
    for number, i in enumerate(needy):
        more = min(natural[i] - least[i], max(left, 0) // (len(needy) - number))
        found[i] += more
        left -= more
    return [found[i] for i in part]


def _print(part: Sequence[int], columns: Row, rows: Sequence[Row], words: Collection[int], widths: list[int]) -> None:
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for i, own in zip(part, widths, strict=True):
        shown.add_column(columns[i], width=own, overflow="fold", justify="left" if i in words else "right")
    for row in rows:
        shown.add_row(*(row[i] for i in part))
    _screen().print(shown, crop=False)
