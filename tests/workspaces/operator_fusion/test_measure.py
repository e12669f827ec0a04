"""Measurements of plans and parts: pairs with the whole compiled layer on both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from operator_fusion import operators, plans, runtime, timing
from operator_fusion.jobs import Confirmed, PartAlone, Versus, every_part
from operator_fusion.measure import Bench, WrongResult
from operator_fusion.shapes import Shape

SHAPE = Shape(batch=2, seq=9, heads=2, head_size=4, layers=2)
PLANS = [plans.NOTHING_FUSED, plans.from_value(6826), plans.from_value(1365)]


@pytest.fixture(autouse=True)
def eager():
    with runtime.eager():
        yield


def test_there_are_121_parts():
    parts = every_part()
    assert len(set(parts)) == len(parts) == 121
    assert sum(job.part[0] == job.part[1] for job in parts) == 15
    assert [job for job in parts if job.hand_written] == [PartAlone((3, 7), True)]


# A choice is confirmed by three times as many samples: chosen plans differ by less than the noise of one measurement.
@pytest.mark.parametrize(("jobs", "count"), [(PLANS, 3), (every_part()[:6], 3), ([Confirmed(PLANS[0])], 9)])
def test_every_job_is_measured_once_a_round(jobs: list, count: int):
    measurements = Bench(SHAPE, rounds=3).measure(jobs)
    assert [len(measurement.pairs) for measurement in measurements] == [count] * len(jobs)
    assert all(measurement.value > 0 and measurement.milliseconds > 0 for measurement in measurements)


@pytest.mark.parametrize(("jobs", "layers"), [(PLANS, 4), (every_part()[:6], 3), (every_part()[:4], 2)])
def test_a_pair_is_relative_to_the_layer_before_and_after(jobs: list, layers: int, monkeypatch: pytest.MonkeyPatch):
    """The machine slows down from job to job; all jobs take three times as long as the layer."""
    order: list[Any] = []

    def slowing(functions: dict[Any, Callable], device: str, rounds: int) -> timing.Samples:
        order[:] = functions
        return {key: [(n + 100) * (1 if isinstance(key, int) else 3)] for n, key in enumerate(order)}

    monkeypatch.setattr(timing, "interleaved", slowing)
    measurements = Bench(SHAPE).measure(jobs)
    assert sum(isinstance(key, int) for key in order) == layers
    assert isinstance(order[0], int) and isinstance(order[-1], int)
    assert [measurement.value for measurement in measurements] == pytest.approx([3] * len(jobs), rel=0.03)


def test_head_to_head_is_relative_to_the_first():
    ratios = Bench(SHAPE).head_to_head(PLANS, rounds=3)
    assert list(ratios) == PLANS
    assert ratios[PLANS[0]].pairs == [1, 1, 1]


@pytest.mark.compiler
@pytest.mark.parametrize("job", [PLANS[1], PartAlone((1, 4)), Confirmed(PLANS[1]), Versus(PLANS[1], PLANS[0])], ids=str)
def test_code_that_computes_something_else_is_not_timed(job: Any, monkeypatch: pytest.MonkeyPatch):
    """The mask is lost in segment 1 to 4, as by a compiler's bug or a wrong region of the cache."""
    lines = operators.lines

    def without_mask(part):
        return [line.replace("scores + mask", "scores + 0 * mask.exp()") for line in lines(part)]

    monkeypatch.setattr(operators, "lines", without_mask)
    monkeypatch.setattr(timing, "interleaved", lambda *_: pytest.fail("it was timed"))
    with pytest.raises(WrongResult, match="differs from the unfused layer"):
        Bench(SHAPE._replace(mask="causal"), rounds=3).measure([job])


@pytest.mark.compiler
def test_every_part_with_a_mask_is_measured():
    """Hidden scores are -inf on both sides, which is no difference."""
    assert len(Bench(SHAPE._replace(mask="causal"), rounds=3).measure(every_part()[:-1])) == 120
