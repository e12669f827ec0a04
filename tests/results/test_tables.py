"""Tables of records: implementations side by side, the paper's numbers beside ours, unlike records apart.

They are for papers, pages and spreadsheets; text from records is harmless in each.
"""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from reprokit.recipe.model import BenchmarkSummary, Claim
from reprokit.results.formats import as_csv, as_latex, as_markdown
from reprokit.results.likeness import groups
from reprokit.results.tables import ReportTable, by_machine, number, overview, summary
from reprokit.results.tables import sections as tables


def sections(records, claims=()):
    return tables(groups(records), {"fused-attention": claims})


def case(record, batch: int, impl: str, *samples: float, **changes: object):
    return record(params={"batch": batch, "heads": 12, "impl": impl}, samples=samples, **changes)


def test_implementations_stand_side_by_side_with_their_ratio(record):
    first = case(record, 1, "ours", 2.0, 1.0, 3.0), case(record, 1, "torch", 5.0, 5.0)
    second = (case(record, 8, impl, sample) for impl, sample in (("ours", 8.0), ("torch", 4.0), ("naive", 40.0)))
    (section,) = sections([*first, *second])
    assert section.title == "fused-attention:cpu forward: attention.forward [ms]"
    assert section.conditions.startswith("heads 12, EPYC, 2 threads, image 2e2e2e2e2e2e, inputs 1f1f1f1f1f1f")
    assert section.columns == ("batch", "ours", "torch", "naive", "torch/ours", "naive/ours")
    eight = ("8", "8", "4", "40", "0.50x", "5.00x")
    assert section.rows == (("1", "2 (1..3)", "5 (5..5)", "", "2.50x", ""), eight)
    assert section.notes == ()


def test_figures_without_implementations_are_a_plain_table(record):
    (section,) = sections([record(params={"col": n}, samples=(n, n + 1.0)) for n in (1, 2)])
    assert section.columns == ("col", "median", "min..max", "samples")
    assert section.rows == (("1", "1.5", "1..2", "2"), ("2", "2.5", "2..3", "2"))


def test_a_case_whose_parameters_are_missing_or_differ_in_type_keeps_its_row(record):
    (section,) = sections([record(params={}), record(params={"n": 1}), record(params={"n": True})])
    assert [row[0] for row in section.rows] == ["", "1", "true"]
    unnamed = record(params={"batch": 2, "heads": 12}, gpu="A100")
    (section,) = sections([case(record, 1, "ours", 1.0, gpu="A100"), unnamed])
    assert section.columns == ("batch", "ours", "no impl", "no impl/ours") and "A100, EPYC" in section.conditions
    params = [{"n": n, "impl": impl} for n in (1, "1") for impl in ("a", "b", True, "true")]
    (section,) = sections([record(params=each, samples=(at + 1.0,)) for at, each in enumerate(params)])
    assert section.columns[:5] == ("n", "a", "b", "true", "true")
    assert [row[:5] for row in section.rows] == [("1", "1", "2", "3", "4"), ("1", "5", "6", "7", "8")]


def test_repeated_runs_are_pooled_and_counted(record):
    (section,) = sections([record(samples=(1.0,)), record(samples=(3.0,)), record(samples=(2.0,))])
    assert section.conditions.endswith("3 runs")
    assert section.rows[0][-3:] == ("2", "1..3", "3")


def test_unlike_records_are_kept_apart_and_say_why(record):
    found = sections([record(samples=(1.0,)), record(samples=(9.0,), image_digest="sha256:ab", gpu="H200", driver="1")])
    assert [section.rows[0][-3] for section in found] == ["1", "9"]
    assert "H200 (driver 1)" in found[1].conditions
    for section in found:
        assert section.notes == (
            "not averaged with other records of this benchmark: they differ in image_digest, gpu, driver",
        )


def test_the_claims_of_the_paper_stand_beside_its_metric(record):
    claim = {"metric": "attention.forward", "value": 1.6, "unit": "x", "hardware": "A100", "where": "Table 3"}
    others = {"metric": "end_to_end"}, {"benchmark": "backward"}
    claims = [Claim.model_validate({**claim, **change}) for change in ({"benchmark": "forward"}, {}, *others)]
    mine, other = sections([record(), record(recipe="taco")], claims)
    assert mine.notes == ("the paper reports 1.6 x on A100 (Table 3)",) * 2 and not other.notes


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (1, "1"), (1.23456, "1.235"), (123456.7, "123457"), (0.00012345, "0.0001234"),
        (-12.5, "-12.5"), (1.5e-7, "1.500e-07"), (2.5e9, "2.500e+09"),
    ],
)  # fmt: skip
def test_numbers_are_short(value, text):
    assert number(value) == text


def times(record, batch: int, **samples: float):
    """What one run measures of a case: its work, and a time for each implementation."""
    params = {"batch": batch, "heads": 12}
    work = record(metric="attention.work", unit="GFLOP", params=params, samples=(2.0,))
    return [work, *(case(record, batch, impl, sample) for impl, sample in samples.items())]


def test_a_summary_shows_the_fastest_rival_the_ratio_and_the_share_of_the_peak(record):
    peak = record(metric="machine.peak", unit="GFLOP/s", params={"how": "fma"}, samples=(4000.0,))
    records = [peak, *times(record, 1, torch=5.0, ours=2.0, naive=4.0), *times(record, 8, ours=8.0, torch=4.0)]
    chosen = BenchmarkSummary(metric="attention.forward", impl="ours")
    found = summary(records, chosen)
    assert found.columns == ("batch", "ours", "fastest other", "ratio", "of peak")
    assert found.rows == (("1", "2", "4 naive", "2.00x", "25.0%"), ("8", "8", "4 torch", "0.50x", "6.2%"))
    assert found.conditions.startswith("heads 12, EPYC")
    only = summary(records, chosen.model_copy(update={"params": {"batch": [8, 16]}}))
    assert [row[-4:] for row in only.rows] == [("8", "4 torch", "0.50x", "6.2%")]
    # Without a peak there is no share, and without a rival no summary.
    assert summary(records[1:], chosen).rows[0][-1] == ""
    assert summary([peak, *times(record, 1, ours=2.0)], chosen) is None


def test_a_summary_has_at_most_12_rows_and_counts_the_others(record):
    records = [each for batch in range(14) for each in times(record, batch, ours=1.0, torch=2.0)]
    found = summary(records, BenchmarkSummary(metric="attention.forward", impl="ours"))
    assert len(found.rows) == 12 and found.notes[-1] == "2 more cases"


def test_a_constant_of_the_machine_is_no_measurement(record):
    peaks = [record(metric="machine.peak", unit="GFLOP/s", params={"dtype": d}, samples=(9.0,)) for d in "ab"]
    (section,) = sections(peaks)
    assert section.columns == ("dtype", "value") and section.rows == (("a", "9"), ("b", "9"))


def test_rows_stand_in_the_natural_order_of_their_parameters(record):
    cases = [(10, "b"), (9, "block100"), (9, "block20"), (True, "a"), (1e-3, "a²" + "1" * 5000), ("", "a")]
    (section,) = sections([record(params={"n": n, "kind": kind}) for n, kind in cases])
    assert [row[:2] for row in section.rows] == [
        ("", "a"), ("0.001", "a²" + "1" * 5000), ("9", "block20"), ("9", "block100"), ("10", "b"), ("true", "a"),
    ]  # fmt: skip


def test_an_overview_names_recipe_and_machine_once(record):
    records = [record(metric=metric, node=node) for node in ("", "lab1") for metric in ("a", "b")]
    first, second = by_machine(overview(groups(records)))
    assert (first.title, second.title) == ("fused-attention:cpu, EPYC", "fused-attention:cpu, EPYC, node lab1")
    assert first.rows[0] == ("forward", "a [ms]", "1", "1", "3", "2026-11-21") and len(first.rows) == 2


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
