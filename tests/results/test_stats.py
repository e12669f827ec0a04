"""Effect, interval and test: on made-up samples of a known distribution, always the same ones."""

from __future__ import annotations

import random
import statistics

import pytest

from reprokit.errors import UsageError
from reprokit.results.stats import effect, ratio_interval

RNG = random.Random()


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    RNG.seed(7)


def timings(count: int, spread: float = 0.02, factor: float = 1.0) -> list[float]:
    """Skewed, as timings are: a floor and an exponential tail, with this coefficient of variation."""
    return [factor * (1 - spread + RNG.expovariate(1 / spread)) for _ in range(count)]


def test_a_slow_down_of_five_percent_is_found_and_its_interval_holds_it():
    found = [effect(timings(10), timings(10, factor=1.05)) for _ in range(100)]
    assert sum(each.judgement == "higher" for each in found) >= 90
    assert sum(each.low <= 1.05 <= each.high for each in found) >= 88  # of 95; 100 trials
    assert statistics.median(each.ratio for each in found) == pytest.approx(1.05, abs=0.01)


@pytest.mark.slow
def test_the_same_build_is_seldom_called_different():
    found = [effect(timings(10), timings(10)).judgement for _ in range(100)]
    assert sum(each != "no difference found" for each in found) <= 5


def test_samples_that_drift_are_not_called_different():
    slope = [1 + n / 100 for n in range(20)]  # one machine that slows down through both sets
    drift = [value * noise for value, noise in zip(slope, timings(20, 0.001), strict=True)]
    assert effect(drift[:10], drift[10:]).judgement == "no difference found"
    assert effect(timings(10, 0.001), timings(10, 0.001, 1.1)).judgement == "higher"
    RNG.seed(23)
    drawn: list[list[float]] = [[], []]
    for samples in drawn:  # each depends on the one before: without dependence, p would be 2e-18
        level = 0.0
        for _ in range(100):
            level = 0.98 * level + RNG.gauss(0, 0.2)
            samples.append(1 + 0.05 * level)
    depending = effect(*drawn)
    assert depending.p > 0.005 and depending.judgement == "no difference found"


def test_a_difference_below_the_margin_is_none_even_if_it_is_significant():
    small = effect(timings(50, 0.001), timings(50, 0.001, factor=1.01))
    assert small.p < 0.001 and small.judgement == "no difference found"


def test_too_few_samples_are_said_and_how_many_it_would_take():
    assert effect([1.0, 1.1, 1.05], [2.0, 2.1, 2.05]).judgement == "too few samples"
    # 5 noisy samples cannot reach the level of noisy sets.
    tenfold = effect([1.0, 1.06, 0.97, 1.03, 1.10], [10.0, 10.7, 9.6, 10.3, 11.2])
    assert tenfold.judgement == "too few samples"
    noisy = effect(timings(10, 0.1), timings(10, 0.1))
    assert noisy.needed is not None and 40 < noisy.needed < 400
    quiet = effect(timings(10, 0.005), timings(10, 0.005))
    assert quiet.needed is not None and quiet.needed <= 5
    assert effect([1.0], [2.0]).needed is None


def test_exact_counts_zeros_and_negative_numbers():
    assert effect([5.0] * 5, [6.0] * 5).judgement == "higher"
    assert effect([5.0] * 5, [5.0] * 5).judgement == "no difference found"
    zero = effect([0.0] * 6, [1.0] * 6)
    assert (zero.ratio, zero.low, zero.judgement) == (None, None, "higher")
    assert effect([-1.0, -2.0, -3.0, -4.0], [1.0, 2.0, 3.0, 4.0]).ratio is None


def test_the_bootstrap_of_the_median_is_that_of_drawing_samples():
    a, b = timings(51, 0.1), timings(51, 0.1, factor=1.2)
    drawn = sorted(
        statistics.median(RNG.choices(b, k=51)) / statistics.median(RNG.choices(a, k=51)) for _ in range(4000)
    )
    low, high = ratio_interval(a, b)
    assert (low, high) == pytest.approx((drawn[100], drawn[3900]), rel=0.03)
    assert ratio_interval(a, b) == (low, high)


def test_without_scipy_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.stats", None)
    with pytest.raises(UsageError, match="needs scipy") as failure:
        effect([1.0] * 5, [2.0] * 5)
    assert "[results]" in failure.value.hint
