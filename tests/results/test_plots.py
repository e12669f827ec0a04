"""Plots of any benchmark: what is drawn, and what is said of what is not."""

from __future__ import annotations

import pytest

from reprokit.results.history import lines_of
from reprokit.results.history_plot import draw_history
from reprokit.results.likeness import groups
from reprokit.results.plots import plots

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib", reason="pip install .[results]")


def drawn(record, *params: dict):
    return plots(groups([record(params=each, samples=(at + 1.0, at + 1.2)) for at, each in enumerate(params)]))


def test_a_panel_without_a_number_on_the_axis_is_left_out(record):
    many = [{"n": n, "graph": graph} for graph in "abcdefghij" for n in (1, 2)]
    found = drawn(record, *many, *({"n": f"auto{n}", "graph": "z"} for n in range(3)))
    assert len(found) == 4 and not any("graph z" in plot.caption for plot in found)


@pytest.mark.slow
def test_the_caption_counts_what_is_not_in_the_plot(record):
    (plot,) = drawn(record, {"n": 1}, {"n": 2}, {"n": "auto"})
    assert plot.caption.endswith("by n; 2 of 3 cases")
    (plot,) = drawn(record, {"n": 1}, {"n": 2})
    assert plot.caption.endswith("by n")
    (plot,) = drawn(record, {"n": 1})
    assert plot.caption.endswith("medians and quartiles of 1 case")
    (plot,) = drawn(record, *({"graph": f"g{n}"} for n in range(30)))
    assert plot.caption.endswith("medians and quartiles of 24 of 30 cases")
    impls = [{"n": n, "impl": f"i{impl}"} for impl in range(9) for n in (1, 2)]
    (plot,) = drawn(record, *impls)
    assert plot.caption.endswith("by n; 16 of 18 cases")
    *_, last = drawn(record, *({"n": n, "graph": graph} for graph in "abcdefghij" for n in (1, 2)))
    assert last.caption.endswith("by n") and last.panel == "graph d; 2 of 20 cases"


def test_a_number_that_follows_from_the_case_is_no_axis_and_splits_no_line(record):
    plans = {("ours", 128): 40733, ("ours", 512): 40830, ("ours", 1024): 40733}
    cases = [
        {"impl": impl, "mask": mask, "plan": plans.get((impl, seq), 0), "seq": seq}
        for mask in ("fixed", "strided") for seq in (128, 512, 1024) for impl in ("ours", "eager", "a", "b", "c")
    ]  # fmt: skip
    first, second = drawn(record, *cases)
    for plot, mask in ((first, "fixed"), (second, "strided")):
        assert plot.caption.endswith("by seq (points also differ in plan)")
        assert plot.panel == f"mask {mask}; 15 of 30 cases"
        assert plot.lines == ("ours", "eager", "a", "b", "c")
        assert "ours, plan 40830, seq 512" in plot.svg


def test_points_at_the_same_place_are_on_lines_of_their_own(record):
    (plot,) = drawn(record, *({"n": n, "size": size} for n, size in ((1, 8), (2, 8), (3, 8), (1, 9), (2, 9))))
    assert plot.caption.endswith("by n") and plot.lines == ("size 8", "size 9")
    (plot,) = drawn(record, *({"batch": 64 // n, "seq": n} for n in (1, 2, 4)))
    assert plot.caption.endswith("by batch (points also differ in seq)") and plot.lines == ()
    (plot,) = drawn(record, *({"graph": graph, "n": n} for n, graph in enumerate("abc")))
    assert plot.lines == ("graph a", "graph b", "graph c")


def test_the_names_of_rows_lack_what_all_have(record):
    (plot,) = drawn(record, *({"device": "a long name of a device that all rows have", "id": id} for id in "xy"))
    assert plot.svg.count(">id x<") == plot.svg.count(">id y<") == 2  # beside the axis and at the point


@pytest.mark.slow
def test_a_history_has_an_axis_for_each_unit_and_names_what_it_lacks(record, tmp_path):
    lines = lines_of(groups([record(unit=unit, params={"n": n}) for unit in ("ms", "s") for n in range(6)]))
    assert draw_history(lines, "m", tmp_path / "h.svg") == 0
    text = (tmp_path / "h.svg").read_text()
    assert text.count("fused-attention:cpu forward [ms]") == 1 and text.count("fused-attention:cpu forward [s]") == 1
    many = lines_of(groups([record(params={"n": n}) for n in range(11)]))
    assert draw_history(many, "m", tmp_path / "h.svg") == 3
