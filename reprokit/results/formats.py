"""Tables of results as CSV, Markdown and LaTeX, with text from records made harmless in each. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

from reprokit.tables import ReportTable
from reprokit.untrusted.terminal import escaped, markdown

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "[": "{[}", "*": "{*}",  # else arguments of a preceding line break
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip
_NUMBER = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?")
# Spreadsheets also read full-width signs, and in many countries split cells at semicolons; some split at tabs.
_FORMULA = re.compile(r"(^|[;\t])((?:[^\S\t]|\x22)*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")


def as_csv(tables: Sequence[ReportTable]) -> str:
    """All tables below each other; the first columns are the table's title, conditions and notes."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for table in tables:
        writer.writerow([_cell(text) for text in ("table", "conditions", "notes", *table.columns)])
        for row in table.rows:
            about = (table.title, table.conditions, "; ".join(table.notes))
            writer.writerow([_cell(text) for text in (*about, *row)])
    return stream.getvalue()


def as_markdown(tables: Sequence[ReportTable]) -> str:
    parts = []
    for table in tables:
        marks = ["---" if number in table.words else "---:" for number in range(len(table.columns))]
        rows = [_markdown_row(table.columns), f"|{'|'.join(marks)}|", *map(_markdown_row, table.rows)]
        below = [markdown(text) for text in (table.conditions, *table.notes) if text]
        parts.append("\n".join([f"**{markdown(table.title)}**", "", *rows, "", *(f"{line}  " for line in below)]))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def as_latex(tables: Sequence[ReportTable]) -> str:
    """`table` environments for the package booktabs, with the notes as comments."""
    parts = []
    for table in tables:
        align = "".join("l" if number in table.words else "r" for number in range(len(table.columns)))
        lines = [
            *(f"% {latex(note)}" for note in table.notes),
            r"\begin{table}",
            rf"\caption{{{latex(table.title)}. {latex(table.conditions)}}}",
        ]
        lines += [rf"\begin{{tabular}}{{{align}}}", r"\toprule", _latex_row(table.columns), r"\midrule"]
        lines += [*map(_latex_row, table.rows), r"\bottomrule", r"\end{tabular}", r"\end{table}"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


FORMATS: dict[str, Callable[[Sequence[ReportTable]], str]] = {
    "csv": as_csv,
    "markdown": as_markdown,
    "latex": as_latex,
}


def latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in escaped(text))


def _cell(text: str) -> str:
    """A cell that spreadsheets do not run as a formula."""
    text = escaped(text)
    return text if _NUMBER.fullmatch(text) else _FORMULA.sub(r"\1\2'", text)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown, cells))} |"


def _latex_row(cells: Sequence[str]) -> str:
    return f"{' & '.join(map(latex, cells))} \\\\"
