"""Searches on made-up times: what each strategy finds, budgets, and going on where a search was stopped."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from operator_fusion import plans
from operator_fusion.jobs import Job, Measurement, PartAlone
from operator_fusion.plans import Plan
from operator_fusion.search.loop import EXACT_BUDGET, STRATEGIES, Progress, search
from operator_fusion.store import Store


class MadeUp:
    """Every part has a cost, a plan that of its parts and 0.3 % of noise; one plan in the middle of nowhere is best."""

    def __init__(self) -> None:
        rng = random.Random(3)
        self.parts = {}
        for first in range(1, 16):
            for last in range(first, 16):
                length = last - first + 1
                self.parts[first, last] = 0.08 * length * rng.uniform(0.75, 1.1) + (0.01 if length == 1 else 0)
        self.attention = 0.1
        self.noise = rng
        self.asked: list[Job] = []

    def true(self, job: Job) -> float:
        if isinstance(job, PartAlone):
            return self.attention if job.hand_written else self.parts[job.part]
        by_hand = job.uses_attention
        return sum(self.attention if by_hand and part == plans.ATTENTION else self.parts[part] for part in job.parts)

    def measure(self, jobs: Sequence[Job]) -> list[Measurement]:
        self.asked += jobs
        return [Measurement([self.true(job) * self.noise.gauss(1, 0.003)], 1.0) for job in jobs]


def best_of_all(made_up: MadeUp) -> float:
    return min(made_up.true(plan) for plan in plans.plans_that_differ())


def test_exact_finds_the_best_plan_after_131_measurements():
    made_up = MadeUp()
    result = search(STRATEGIES["exact"](0), made_up.measure, Store(None, {}), 128)
    assert len(made_up.asked) == len(set(made_up.asked)) == EXACT_BUDGET == 131
    assert sum(isinstance(job, PartAlone) for job in made_up.asked) == 121
    assert made_up.true(result.best) <= best_of_all(made_up) * 1.01
    assert result.chosen[:121] == [None] * 121 and result.chosen[-1] == result.best


@pytest.mark.parametrize("name", ["random", "anneal", "reward"])
def test_a_search_uses_its_budget_and_returns_the_best_it_saw(name: str):
    made_up = MadeUp()
    seen: list[Progress] = []
    result = search(STRATEGIES[name](1), made_up.measure, Store(None, {}), 60, seen.append)
    assert len(result.chosen) == seen[-1].used == 60
    assert [progress.value for progress in seen] == sorted((progress.value for progress in seen), reverse=True)
    assert (result.best, result.value) == (result.chosen[-1], seen[-1].value)
    assert result.measured == len(made_up.asked) == len(set(made_up.asked))


def test_xgboost_comes_closer_than_random():
    made_up = MadeUp()
    best = best_of_all(made_up)
    found = {
        name: search(STRATEGIES[name](0), made_up.measure, Store(None, {}), 56).best for name in ("xgboost", "random")
    }
    assert made_up.true(found["xgboost"]) <= best * 1.05 < made_up.true(found["random"])


@pytest.mark.parametrize("name", ["exact", "random", "anneal", "reward"])
def test_a_stopped_search_goes_on_without_measuring_again(name: str, tmp_path: Path):
    path = str(tmp_path / "results.jsonl")
    made_up = MadeUp()

    def stops(jobs: Sequence[Job]) -> list[Measurement]:
        if len(made_up.asked) >= 24:
            raise KeyboardInterrupt
        return made_up.measure(jobs)

    with pytest.raises(KeyboardInterrupt):
        search(STRATEGIES[name](2), stops, Store(path, {"seq": 1}), 40)
    before = len(made_up.asked)
    result = search(STRATEGIES[name](2), made_up.measure, Store(path, {"seq": 1}), 40)
    assert before >= 24
    assert len(made_up.asked) == len(set(made_up.asked))
    assert result.measured == len(made_up.asked) - before
    assert len(result.chosen) == (EXACT_BUDGET if name == "exact" else 40)
    # Stored measurements count for the budget.
    again = search(STRATEGIES[name](2), made_up.measure, Store(path, {"seq": 1}), 40)
    assert (again.measured, again.chosen) == (0, result.chosen)


def test_random_proposes_each_code_once():
    proposed = STRATEGIES["random"](0).propose(2000)
    assert all(isinstance(plan, Plan) and plan.as_run() == plan for plan in proposed)
    strategy = STRATEGIES["random"](0)
    proposed = strategy.propose(20_000)
    assert len(set(proposed)) == len(proposed) == 16_640
    assert strategy.propose(1) == []
