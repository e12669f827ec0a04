"""The table and the plot of strategies."""

from __future__ import annotations

from pathlib import Path

import pytest
from operator_fusion import compare, plans
from operator_fusion.search.loop import Result

GOOD, FAIR, BAD = map(plans.from_value, range(3))
CONFIRMED = {GOOD: 1.0, FAIR: 1.015, BAD: 2.0}


def result(*chosen: plans.Plan | None) -> Result:
    return Result(chosen[-1], 0.5, list(chosen), len(chosen), 1.0, 10.0)


RESULTS = {
    "exact": [result(None, None, GOOD)],
    "random": [result(BAD, FAIR, GOOD), result(FAIR, BAD, FAIR), result(BAD, BAD, FAIR)],
    "anneal": [result(BAD, BAD, BAD), result(BAD, GOOD, GOOD)],
}


def test_a_search_counts_from_where_it_stays_within_two_percent_of_the_best_confirmed_time():
    rows = {row.strategy: row for row in compare.rows(RESULTS, CONFIRMED)}
    assert [rows[name].needed for name in RESULTS] == [3, 3, None]
    assert rows["random"].best == 1.015
    assert rows["random"].own_share == 0.1
    half = result(GOOD, GOOD)._replace(measured=1)
    assert half.own_share == 1 / (1 + 9 * 2) and half._replace(measured=0).own_share is None
    assert [rows[name].reached for name in RESULTS] == [1, 3, 1]
    assert "| anneal | 2 | 3 | 1.500 | 1 | > 3 | 10 % |" in compare.markdown(list(rows.values()))


@pytest.mark.parametrize(("values", "needed"), [([1.0, 2.0, 1.0], 3), ([1.0, 1.01, 1.0], 1), ([1.0, 2.0], None)])
def test_a_good_plan_that_is_given_up_does_not_count(values: list[float], needed: int | None):
    assert compare.needed(values, 1.0) == needed


def test_the_plot_leaves_out_what_has_no_plan_yet(tmp_path: Path):
    reports: list[str] = []
    compare.plot(RESULTS, CONFIRMED, str(tmp_path / "plot.png"), "title", reports.append)
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
    assert reports == []
