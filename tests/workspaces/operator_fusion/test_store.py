"""Stored measurements: read back for the same shape and machine alone, and survive a killed writer."""

from __future__ import annotations

from pathlib import Path

import pytest
from operator_fusion import plans
from operator_fusion.jobs import Confirmed, Measurement, PartAlone, Versus
from operator_fusion.store import Store

from reprokit.bench.parse import parse
from reprokit.recipe.model import Parse

PARAMS = {"batch": 8, "seq": 256, "torch": "2.13.0"}
PLAN = plans.from_value(41115)
JOBS = [PLAN, PartAlone((3, 7)), Versus(PLAN, plans.ALL_FUSED), Confirmed(PLAN), PartAlone((3, 7), True)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "results.jsonl"
    store = Store(str(path), PARAMS)
    for number, job in enumerate(JOBS):
        store.put(job, Measurement([1.0 + number, 1.5 + number, 9.0], 12.5))
    return path


def test_measurements_are_read_back(file: Path):
    store = Store(str(file), PARAMS)
    assert [store.get(job) for job in JOBS] == [Measurement([1.0 + n, 1.5 + n, 9.0], 12.5) for n in range(5)]
    assert store.get(JOBS[1]).value == 2.5
    assert store.best() == PLAN


def test_the_best_plan_is_chosen_by_confirmed_times():
    """The smallest of many noisy times is too small."""
    store = Store(None, PARAMS)
    lucky, good, never_chosen = map(plans.from_value, (1, 2, 3))
    for plan, value in ((lucky, 0.90), (good, 0.92), (never_chosen, 0.99)):
        store.put(plan, Measurement([value], 1.0))
    assert store.best() == lucky
    for plan, value in ((lucky, 0.97), (good, 0.93)):
        store.put(Confirmed(plan), Measurement([value], 1.0))
    assert store.best() == good


def test_records_are_read_as_those_of_every_benchmark(file: Path):
    figures = parse(Parse(format="records"), file.read_text()).measurements
    assert [figure.samples for figure in figures] == [(1.0 + n, 1.5 + n, 9.0) for n in range(5)]
    assert figures[0].params == {**PARAMS, "job": "plan", "id": "41115"}
    assert {figure.metric for figure in figures} == {"operator_fusion.relative_time"}


def test_a_value_is_the_same_before_and_after_it_is_read(tmp_path: Path):
    path = str(tmp_path / "results.jsonl")
    store = Store(path, PARAMS)
    store.put(PLAN, Measurement([1 / 3, 2 / 7], 1 / 9))
    assert Store(path, PARAMS).get(PLAN) == store.get(PLAN)


def test_another_machine_or_shape_shares_nothing(file: Path):
    store = Store(str(file), {**PARAMS, "torch": "2.12.0"})
    assert [store.get(job) for job in JOBS] == [None] * 5
    with pytest.raises(ValueError, match="no plan was measured"):
        store.best()


def test_plans_that_run_the_same_code_share_a_measurement():
    store = Store(None, PARAMS)
    plan = plans.from_segments(True, [(9, 10)])
    store.put(plan, Measurement([1.0], 1.0))
    assert store.get(plan._replace(hand_written=False)) == Measurement([1.0], 1.0)


def test_a_line_that_was_cut_off_is_dropped_and_the_next_is_whole(file: Path):
    text = file.read_text()
    file.write_text(text[:-20])
    store = Store(str(file), PARAMS)
    assert [store.get(job) is None for job in JOBS] == [False] * 4 + [True]
    store.put(JOBS[4], Measurement([2.0], 1.0))
    assert Store(str(file), PARAMS).get(JOBS[4]) == Measurement([2.0], 1.0)


def test_a_last_line_without_its_end_is_kept_and_nothing_is_written_by_reading(file: Path):
    text = file.read_text()
    for kept, known in ((text[:-1], 5), (text[:-20], 4), (text + '{"met', 5)):
        file.write_text(kept)
        assert len(Store(str(file), PARAMS).items()) == known
        assert file.read_text() == kept
        Store(str(file), PARAMS).put(PLAN, Measurement([7.0], 1.0))
        assert [line.count("metric") for line in file.read_text().splitlines()] == [1] * (known + 1)
        assert Store(str(file), PARAMS).get(PLAN) == Measurement([7.0], 1.0)


@pytest.mark.parametrize("content", ["weights on one line", '{"format": "a model"}\nweights', '{"format": "a mo'])
def test_another_file_is_refused_and_kept(tmp_path: Path, content: str):
    path = tmp_path / "model"
    path.write_text(content)
    with pytest.raises(ValueError, match="no record of this search"):
        Store(str(path), PARAMS)
    assert path.read_text() == content


@pytest.mark.parametrize("line", ["no json", "[]", '{"metric": "operator_fusion.relative_time"}'])
def test_a_line_that_is_no_record_is_named(file: Path, line: str):
    file.write_text(f"{file.read_text()}{line}\n")
    with pytest.raises(ValueError, match=r"results\.jsonl:6: no record"):
        Store(str(file), PARAMS)


def test_records_of_other_benchmarks_are_passed_over(file: Path):
    file.write_text('{"environment": {}}\n{"metric": "x", "samples": [1]}\n' + file.read_text())
    assert Store(str(file), PARAMS).best() == PLAN
