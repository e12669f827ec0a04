"""Measurements of plans and parts: pairs with the whole compiled layer on both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from operator_fusion import plans, runtime, timing
from operator_fusion.jobs import PartAlone, every_part
from operator_fusion.measure import Bench
from operator_fusion.shapes import Shape

SHAPE = Shape(batch=2, seq=9, heads=2, head_size=4, layers=2)
PLANS = [plans.NOTHING_FUSED, plans.from_value(6826), plans.from_value(1365)]


def test_there_are_121_parts():
    parts = every_part()
    assert len(set(parts)) == len(parts) == 121
    assert sum(job.part[0] == job.part[1] for job in parts) == 15
    assert [job for job in parts if job.hand_written] == [PartAlone((3, 7), True)]


@pytest.mark.parametrize("jobs", [PLANS, every_part()[:6]])
def test_every_job_is_measured_once_a_round(jobs: list):
    with runtime.eager():
        found = Bench(SHAPE, rounds=3).measure(jobs)
    assert [len(measurement.pairs) for measurement in found] == [3] * len(jobs)
    assert all(measurement.value > 0 and measurement.milliseconds > 0 for measurement in found)


@pytest.mark.parametrize(("jobs", "layers"), [(PLANS, 4), (every_part()[:6], 3), (every_part()[:4], 2)])
def test_a_pair_is_relative_to_the_layer_before_and_after(jobs: list, layers: int, monkeypatch: pytest.MonkeyPatch):
    """The machine slows down from job to job; all jobs take three times as long as the layer."""
    order: list[Any] = []

    def slowing(functions: dict[Any, Callable], device: str, rounds: int) -> timing.Samples:
        order[:] = functions
        return {key: [(n + 100) * (1 if isinstance(key, int) else 3)] for n, key in enumerate(order)}

    monkeypatch.setattr(timing, "interleaved", slowing)
    with runtime.eager():
        found = Bench(SHAPE).measure(jobs)
    assert sum(isinstance(key, int) for key in order) == layers
    assert isinstance(order[0], int) and isinstance(order[-1], int)
    assert [measurement.value for measurement in found] == pytest.approx([3] * len(jobs), rel=0.03)


def test_head_to_head_is_relative_to_the_first():
    with runtime.eager():
        ratios = Bench(SHAPE).head_to_head(PLANS, rounds=3)
    assert list(ratios) == PLANS
    assert ratios[PLANS[0]].pairs == [1, 1, 1]
