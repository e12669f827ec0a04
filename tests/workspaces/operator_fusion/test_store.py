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
# The third is no short decimal: a value is the same before and after it is read.
MEASURED = [Measurement([1.0 + number, 1.5 + number, 28 / 3], 1 / 9) for number in range(5)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "results.jsonl"
    store = Store(str(path), PARAMS)
    for job, measurement in zip(JOBS, MEASURED, strict=True):
        store.put(job, measurement)
    assert [store.get(job) for job in JOBS] == [Store(str(path), PARAMS).get(job) for job in JOBS]
    return path


def test_measurements_are_read_back_by_this_and_every_benchmark(file: Path):
    store = Store(str(file), PARAMS)
    for job, measurement in zip(JOBS, MEASURED, strict=True):
        assert store.get(job).pairs == pytest.approx(measurement.pairs, rel=1e-5)
    assert store.get(JOBS[1]).value == 2.5
    assert store.best() == PLAN
    records = parse(Parse(format="records"), file.read_text()).measurements
    assert [record.samples for record in records] == [tuple(store.get(job).pairs) for job in JOBS]
    assert records[0].params == {**PARAMS, "job": "plan", "id": "41115"}
    assert {record.metric for record in records} == {"operator_fusion.relative_time"}


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


@pytest.mark.parametrize(("cut", "added", "records"), [(-1, "", 5), (-20, "", 4), (None, '{"met', 5)])
def test_a_cut_off_line_is_dropped_and_nothing_is_written_by_reading(file: Path, cut, added: str, records: int):
    text = file.read_text()[:cut] + added
    file.write_text(text)
    store = Store(str(file), PARAMS)
    assert [store.get(job) is not None for job in JOBS] == [True] * 4 + [records == 5]
    assert file.read_text() == text
    store.put(PLAN, Measurement([7.0], 1.0))
    assert [line.count("metric") for line in file.read_text().splitlines()] == [1] * (records + 1)
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
