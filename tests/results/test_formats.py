"""Tables for papers, pages and spreadsheets; text from records is harmless in each."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

from reprokit.results.formats import as_csv, as_latex, as_markdown
from reprokit.results.tables import ReportTable

TABLE = ReportTable("x: time [ms]", "EPYC", ("n", "median"), (("1", "2.5"), ("2", "-3")))
EVIL = "=HYPERLINK(1)|<script>a_b\\input{/etc/passwd}$\x1b[2J"


def test_each_form_has_every_cell():
    assert as_csv([TABLE]) == "table,conditions,notes,n,median\nx: time [ms],EPYC,,1,2.5\nx: time [ms],EPYC,,2,-3\n"
    assert as_markdown([TABLE]) == (
        "**x\\: time \\[ms\\]**\n\n| n | median |\n|---:|---:|\n| 1 | 2.5 |\n| 2 | -3 |\n\nEPYC\n"
    )
    assert "\\begin{tabular}{rr}\n\\toprule\nn & median \\\\\n\\midrule\n1 & 2.5 \\\\" in as_latex([TABLE])


def test_each_form_has_the_notes():
    table = replace(TABLE, notes=("in doubt: heat", "not averaged"))
    assert "\nx: time [ms],EPYC,in doubt: heat; not averaged,1,2.5\n" in as_csv([table])
    assert as_latex([table]).startswith("% in doubt: heat\n% not averaged\n\\begin{table}")
    assert "in doubt: heat" in as_markdown([table]).replace("\\", "")


def test_hostile_text_is_text():
    table = ReportTable(EVIL, EVIL, (EVIL,), ((EVIL,),), (EVIL,))
    (head, row) = csv.reader(io.StringIO(as_csv([table])))
    assert head[3][0] == row[0][0] == row[3][0] == "'"
    page = as_markdown([table])
    assert "<script" not in page and "\x1b" not in page and "&lt;script&gt;" in page
    assert all("\\|" in line for line in page.splitlines() if "HYPERLINK" in line)
    paper = as_latex([table])
    assert "\\input" not in paper and "\\textbackslash{}input\\{" in paper and "\\$" in paper and "a\\_b" in paper
