"""Samples in turns, and the interval of their ratio."""

from __future__ import annotations

import random

import pytest
from fused_attention.bench import timing as attention_timing
from operator_fusion import timing


def test_functions_are_called_in_turns_in_alternating_order():
    calls: list[str] = []

    def function(name: str):
        def run() -> None:
            calls.append(name)
            sum(range(200_000))

        return run

    samples = timing.interleaved({"a": function("a"), "b": function("b")}, "cpu", rounds=4)
    assert [len(values) for values in samples.values()] == [4, 4]
    turns = [name for name, before in zip(calls, [None, *calls], strict=False) if name != before]
    # A spent budget leaves three rounds.
    samples = timing.interleaved({"a": function("a")}, "cpu", rounds=50, budget_s=0)
    assert len(samples["a"]) == timing.MIN_ROUNDS
    assert turns[:7] == ["a", "b", "a", "b", "a", "b", "a"] or turns[:5] == ["a", "b", "a", "b", "a"]


def test_one_function_under_two_names_is_sampled_under_both_and_warmed_up_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "SAMPLE_MS", 0)
    calls: list[None] = []

    def function() -> None:
        calls.append(None)

    samples = timing.interleaved({1: function, 2: function}, "cpu", rounds=3)
    assert [len(values) for values in samples.values()] == [3, 3]
    assert len(calls) == 2 + 6


def test_on_a_gpu_graphs_of_as_many_calls_as_fill_a_sample_are_timed(monkeypatch: pytest.MonkeyPatch):
    captured: list[int] = []

    def sampler(function: object, calls: int):
        captured.append(calls)
        return lambda: 0.5

    monkeypatch.setattr(attention_timing, "cuda_sampler", sampler)
    assert timing.interleaved({"a": lambda: None}, "cuda", rounds=3) == {"a": [0.5] * 3}
    assert captured == [1, int(timing.SAMPLE_MS / 0.5)]


def test_a_ratio_of_pairs_is_free_of_what_slows_both():
    rng = random.Random(0)
    speeds = [rng.uniform(1, 5) for _ in range(21)]
    ratio = timing.ratio([1.2 * s * rng.gauss(1, 0.001) for s in speeds], speeds)
    assert ratio.median == pytest.approx(1.2, rel=0.01)
    assert 1.19 < ratio.low <= ratio.median <= ratio.high < 1.21
    # The interval is wide if pairs disagree, and one pair has no width.
    ratio = timing.ratio([rng.uniform(0.5, 1.5) for _ in range(11)], [1.0] * 11)
    assert ratio.high - ratio.low > 0.2
    assert timing.ratio([2.0], [1.0]) == (2.0, 2.0, 2.0)
