"""The encoding of plans: known values, counts, and properties of every value."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_fusion import plans
from operator_fusion.plans import Plan

VALUES = st.integers(0, plans.VALUES - 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (6826, "0 2 1 2 3 4"),
        (1365, "0 1 1 4"),
        (16022, "0 3 2 6 9 10 13 14"),
        (21845, "0 0"),
        (41115, "1 4 3 7 9 10 11 12 14 15"),
    ],
)
def test_published_values_translate_both_ways(value: int, text: str):
    plan = plans.from_value(value)
    assert str(plan) == text
    assert plans.from_text(text) == plan


def test_counts_of_the_whole_space():
    every = [plans.from_value(value) for value in range(plans.VALUES)]
    counts = collections.Counter(len(plan.segments) for plan in every)
    assert counts == {0: 4, 1: 420, 2: 5460, 3: 20020, 4: 25740, 5: 12012, 6: 1820, 7: 60}
    assert sum(plan.uses_attention for plan in every) == 512
    assert len(set(every)) == 32768 == len(plans.all_plans())
    assert set(every) == set(plans.all_plans())
    assert len(plans.plans_that_differ()) == plans.DIFFERENT == 16640
    assert len({part for plan in every for part in plan.segments}) == 105


@given(VALUES)
def test_every_form_of_a_value_leads_back_to_its_plan(value: int):
    """The complement of the operators' bits is the same plan, too."""
    plan = plans.from_value(value)
    for again in (
        plans.from_value(value ^ 0x7FFF),
        plans.from_value(plan.value),
        plans.from_bits(f"{value:016b}"),
        plans.from_segments(plan.hand_written, plan.segments),
        plans.from_text(str(plan)),
    ):
        assert again == plan
    assert plan.value == min(value, value ^ 0x7FFF)
    assert [n for first, last in plan.parts for n in range(first, last + 1)] == list(range(1, 16))
    assert all(first < last for first, last in plan.segments)


@given(VALUES)
def test_neighbours_are_mutual_and_one_change_away(value: int):
    plan = plans.from_value(value)
    near = list(plan.neighbours())
    assert len(set(near)) == 15 and plan not in near
    for other in near:
        assert plan in other.neighbours()
        assert (other.hand_written != plan.hand_written) + len(set(other.cuts) ^ set(plan.cuts)) == 1


@given(VALUES)
def test_plans_that_run_alike_are_equal_as_run(value: int):
    plan = plans.from_value(value)
    other = plan._replace(hand_written=not plan.hand_written)
    assert (plan.as_run() == other.as_run()) == (plans.ATTENTION not in plan.parts)
    assert plan.as_run().parts == plan.parts


@pytest.mark.parametrize(
    ("make", "inputs", "message"),
    [
        (plans.from_value, [-1, 65536], "values are 0 to 65535"),
        (plans.from_bits, ["", "01", "0" * 17, "0" * 15 + "2"], "16 characters"),
        (
            plans.from_text,
            ["", "0", "2 0", "0 1 3", "0 1 3 3", "0 1 3 16", "0 2 3 5 5 6", "0 2 5 6 1 2", "0 x"],
            "not a",
        ),
    ],
)
def test_what_is_no_plan_is_refused(make: Callable, inputs: list, message: str):
    for wrong in inputs:
        with pytest.raises(ValueError, match=message):
            make(wrong)


def test_dynamic_programming_finds_the_cheapest_of_all_plans():
    rng = random.Random(0)
    costs = {(first, last): rng.random() for first in range(1, 16) for last in range(first, 16)}

    def cost(plan: Plan) -> float:
        parts = [0.1 if plan.uses_attention and part == plans.ATTENTION else costs[part] for part in plan.parts]
        return sum(parts)

    expected = sorted(plans.plans_that_differ(), key=cost)[:10]
    found = plans.cheapest(costs, 0.1, 10)
    assert [plan for _, plan in found] == expected
    assert [total for total, _ in found] == pytest.approx([cost(plan) for plan in expected])
    # Without attention and without some parts.
    singles = {(n, n): 1.0 for n in range(1, 16)}
    assert plans.cheapest(singles, None, 3) == [(15.0, plans.NOTHING_FUSED)]
