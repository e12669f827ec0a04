"""Plots of any benchmark, of a metric over time and of a roofline: what is drawn, and what is said of what is not."""

from __future__ import annotations

import pytest

from reprokit.results.history import lines_of, sparkline, table
from reprokit.results.likeness import groups
from reprokit.results.plots import Roof, draw_history, draw_roofline, plots
from reprokit.results.roofline import RooflinePoint

pytest.importorskip("matplotlib", reason="pip install .[results]")
GRAPHS = [{"n": n, "graph": graph} for graph in "abcdefghij" for n in (1, 2)]


@pytest.fixture
def drawn(record):
    """`drawn(params, ...)`: the plots of records with these parameters."""
    return lambda *params: plots(
        groups([record(params=each, samples=(at + 1.0, at + 1.2)) for at, each in enumerate(params)])
    )


@pytest.mark.slow
def test_the_caption_counts_what_is_not_in_the_plot(drawn):
    for params, end in [
        ([{"n": 1}, {"n": 2}, {"n": "auto"}], "by n; 2 of 3 cases"),
        ([{"n": 1}, {"n": 2}], "by n"),
        ([{"n": 1}], "medians and quartiles of 1 case"),
        ([{"graph": f"g{n}"} for n in range(30)], "medians and quartiles of 24 of 30 cases"),
        ([{"n": n, "impl": f"i{impl}"} for impl in range(9) for n in (1, 2)], "by n; 16 of 18 cases"),
    ]:
        (plot,) = drawn(*params)
        assert plot.caption.endswith(end)
    *_, last = drawn(*GRAPHS)
    assert last.caption.endswith("by n") and last.panel == "graph d; 2 of 20 cases"
    # A panel without a number on the axis is not drawn.
    panels = drawn(*GRAPHS, *({"n": f"auto{n}", "graph": "z"} for n in range(3)))
    assert len(panels) == 4 and not any("graph z" in plot.caption for plot in panels)


@pytest.mark.slow
def test_a_number_that_follows_from_the_case_is_no_axis_and_splits_no_line(drawn):
    plans = {("ours", 128): 40733, ("ours", 512): 40830, ("ours", 1024): 40733}
    first, second = drawn(*(
        {"impl": impl, "mask": mask, "plan": plans.get((impl, seq), 0), "seq": seq}
        for mask in ("fixed", "strided") for seq in (128, 512, 1024) for impl in ("ours", "eager", "a", "b", "c")
    ))  # fmt: skip
    for plot, mask in ((first, "fixed"), (second, "strided")):
        assert plot.caption.endswith("by seq (points also differ in plan)")
        assert plot.panel == f"mask {mask}; 15 of 30 cases"
        assert plot.lines == ("ours", "eager", "a", "b", "c")
        assert "ours, plan 40830, seq 512" in plot.svg


@pytest.mark.slow
def test_points_at_the_same_place_are_on_lines_of_their_own(drawn):
    (plot,) = drawn(*({"n": n, "size": size} for n, size in ((1, 8), (2, 8), (3, 8), (1, 9), (2, 9))))
    assert plot.caption.endswith("by n") and plot.lines == ("size 8", "size 9")
    (plot,) = drawn(*({"batch": 64 // n, "seq": n} for n in (1, 2, 4)))
    assert plot.caption.endswith("by batch (points also differ in seq)") and plot.lines == ()
    (plot,) = drawn(*({"graph": graph, "n": n} for n, graph in enumerate("abc")))
    assert plot.lines == ("graph a", "graph b", "graph c")
    # The names of rows lack what all have.
    (plot,) = drawn(*({"device": "a long name of a device that all rows have", "id": id} for id in "xy"))
    assert plot.svg.count(">id x<") == plot.svg.count(">id y<") == 2  # beside the axis and at the point


@pytest.mark.slow
def test_a_history_has_an_axis_for_each_unit_and_names_what_it_lacks(record, tmp_path):
    lines = lines_of(groups([record(unit=unit, params={"n": n}) for unit in ("ms", "s") for n in range(6)]))
    assert draw_history(lines, "m", tmp_path / "h.svg") == 0
    text = (tmp_path / "h.svg").read_text()
    assert text.count("fused-attention:cpu forward [ms]") == 1 and text.count("fused-attention:cpu forward [s]") == 1
    many = lines_of(groups([record(params={"n": n}) for n in range(11)]))
    assert draw_history(many, "m", tmp_path / "h.svg") == 3


def test_a_line_goes_on_over_commits_and_images_but_not_machines(record):
    runs = [record(samples=(n,), commit=f"{n:040d}", time=f"2026-11-2{n}T00:00:00Z") for n in (3, 1, 2)]
    lines = lines_of(groups([*runs, record(cpu="Xeon")]))
    assert [[median for _, _, median in line.points] for line in lines] == [[1, 2, 3], [2]]
    assert table(lines, "attention.forward").rows[0][3:7] == ("3", "1", "3", "+200.0 %")


def test_other_changes_than_those_of_the_code_are_noted_and_one_run_has_no_change(record):
    changes = [{}, {"command": "python3 -m bench --small", "driver": "570", "commit": "a" * 40}, {"cpu": "Xeon"}]
    shown = table(lines_of(groups(record(**each) for each in changes)), "attention.forward")
    assert [row[6] for row in shown.rows] == ["+0.0 %", ""]
    (note,) = shown.notes
    assert note.endswith("batch 8, impl ours: the runs differ in command, driver, not only in code")


def test_lines_that_differ_only_in_node_or_files_are_told_apart(record):
    runs = [record(node="alpha"), record(), record(files={"d": "1f" * 32}), record(cpu="Xeon")]
    rows = table(lines_of(groups(runs)), "attention.forward").rows
    assert [row[2] for row in rows] == [
        "EPYC, 2 threads, node alpha, files.d none", "EPYC, 2 threads, node none, files.d none",
        f"EPYC, 2 threads, node none, files.d {'1f' * 10}", "Xeon, 2 threads",
    ]  # fmt: skip
    (line,) = lines_of(groups([record(commit="a" * 40, dirty=True, changes="b" * 40)]))
    assert line.points == (("2026-11-21T09:00:00Z", "aaaaaaaaaaaa with changes", 2.0),)


def test_sparklines():
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5]) == "▁▁" and len(sparkline(range(100))) == 40


@pytest.mark.slow
def test_roofs_and_points_are_drawn_and_names_cannot_mark_up(tmp_path):
    points = [RooflinePoint("spmm <script> $x$ \x1b[2J", 0.5, 40.0), RooflinePoint("far", 1e9, 1e9)]
    for name in ("a.svg", "b.svg"):
        draw_roofline([Roof("V100 fp32", 15667.2, 898.0)], points, tmp_path / name)
    svg = (tmp_path / "a.svg").read_text()
    assert "V100 fp32: 1.567e+04 GFLOP/s, 898 GB/s" in svg and "FLOP a byte" in svg
    assert "<script>" not in svg and "\x1b" not in svg and "$x$" in svg
    assert (tmp_path / "b.svg").read_text() == svg
