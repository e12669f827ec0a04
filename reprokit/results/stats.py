"""How two sets of timings differ: effect with interval, a test, and the samples that would be needed. Pure.

Timings are skewed and drift, so medians and ranks are compared, and neighbouring samples that depend on each other
count as fewer samples.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

# One build measured twice differs by this on a machine that is not idle, so a smaller difference is not called one.
MARGIN = 0.02
LEVEL = 0.05  # of the test
# Timings that are noisier than this (coefficient of variation) are so in spells, which look like differences. So the
# test must be surer (tests/performance/compare.py).
_QUIET, _NOISY_LEVEL = 0.033, 0.005
# Dependence below this cannot be told from chance with 10 samples.
_INDEPENDENT = 0.1
# The slow-down that `needed` samples find with this power.
SLOWDOWN, _POWER = 0.05, 0.9
_RESAMPLES = 2000
# The rank-sum test needs this many samples more than a t-test, for normal data at worst.
_EFFICIENCY = 3 / math.pi
_EXACT_MOST = 400  # pairs of samples for which the exact distribution is computed
_NORMAL = statistics.NormalDist()

Judgement = Literal["higher", "lower", "no difference found", "too few samples"]


@dataclass(frozen=True)
class Effect:
    """The median of B as a multiple of that of A, with its 95 % interval; None where A's median is 0 or negative.

    `p` is the two-sided probability of such ranks without a difference. `needed` is the number of samples in each set
    that would find a slow-down of 5 % in 9 of 10 comparisons, None where unknown.
    """

    ratio: float | None
    low: float | None
    high: float | None
    p: float
    judgement: Judgement
    needed: int | None


def effect(a: Sequence[float], b: Sequence[float]) -> Effect:
    """Compare samples in the order of measurement."""
    first, second = statistics.median(a), statistics.median(b)
    dependence = _dependence(a, b)
    ratio = second / first if first > 0 and second < first * 1e150 else None
    low, high = ratio_interval(a, b, dependence)
    p = p_value(a, b, dependence)
    spread = max(_spread(a), _spread(b))
    needed = _needed(spread, dependence)
    level = LEVEL if spread <= _QUIET else _NOISY_LEVEL
    if min(len(a), len(b)) < 2 or _least_p(len(a), len(b)) >= level:
        return Effect(ratio, low, high, p, "too few samples", needed)
    apart = abs(second - first) > MARGIN * abs(first) and not _drifts(a, b)
    if p >= level or not apart:
        return Effect(ratio, low, high, p, "no difference found", needed)
    return Effect(ratio, low, high, p, "higher" if second > first else "lower", needed)


def ratio_interval(
    a: Sequence[float], b: Sequence[float], dependence: float = 1.0
) -> tuple[float | None, float | None]:
    """The 95 % interval of median(b) / median(a) by bootstrap; None where it cannot be known."""
    if min(len(a), len(b)) < 2 or min(*a, *b) <= 0:
        return None, None
    middle = math.log(statistics.median(b)) - math.log(statistics.median(a))
    one, other = (sorted(map(math.log, samples)) for samples in (a, b))
    ranks = zip(_middle_ranks(len(a), 0), _middle_ranks(len(b), 1), strict=True)
    drawn = sorted(other[second] - one[first] for first, second in ranks)
    wider = math.sqrt(dependence)
    ends = (drawn[int(0.025 * _RESAMPLES)], drawn[int(0.975 * _RESAMPLES)])
    # exp() overflows above 709.
    low, high = (math.exp(min(middle + wider * (end - middle), 700.0)) for end in ends)
    return low, high


@cache
def _middle_ranks(count: int, seed: int) -> tuple[int, ...]:
    """The ranks, within sorted samples, of the medians of bootstrap samples: always the same for the same seed.

    The middle one of n uniform numbers has a Beta distribution (David and Nagaraja, Order Statistics, 2.1), so one draw
    replaces n: the cost does not grow with the samples.
    """
    rng = random.Random(seed)
    half = (count + 1) / 2
    return tuple(min(int(count * rng.betavariate(half, half)), count - 1) for _ in range(_RESAMPLES))


def p_value(a: Sequence[float], b: Sequence[float], dependence: float) -> float:
    """The two-sided Mann-Whitney test, with its score reduced to the number of independent samples."""
    return math.erfc(_score(a, b) / math.sqrt(2 * dependence))


def _score(a: Sequence[float], b: Sequence[float]) -> float:
    """The test's result as that of a standard normal distribution, at least 0.

    scipy.stats has the test, too, but takes 0.9 s to import, half of a comparison of 100 000 records.
    """
    pairs = len(a) * len(b)
    ordered = sorted(b)
    below = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in a) / 2
    u = min(below, pairs - below)
    count = len(a) + len(b)
    equal = Counter([*a, *b])
    if pairs <= _EXACT_MOST and len(equal) == count:
        p = 2 * sum(_arrangements(len(a), len(b))[: int(u) + 1]) / math.comb(count, len(a))
        return -_NORMAL.inv_cdf(p / 2) if p < 1 else 0.0
    ties = sum(times**3 - times for times in equal.values()) / (count * (count - 1))
    deviation = math.sqrt(pairs / 12 * (count + 1 - ties))
    return max(0.0, (pairs / 2 - u - 0.5) / deviation) if deviation else 0.0


@cache
def _arrangements(a: int, b: int) -> list[int]:
    """How many orders of `a` and `b` different values have 0, 1, ... pairs with the value of b below that of a.

    They are the coefficients of the product of (1 - x^(b + i)) / (1 - x^i) for i from 1 to a.
    """
    found = [1] + [0] * (a * b)
    for i in range(1, a + 1):
        for n in range(a * b, b + i - 1, -1):
            found[n] -= found[n - b - i]
        for n in range(i, a * b + 1):
            found[n] += found[n - i]
    return found


def _least_p(a: int, b: int) -> float:
    """The smallest p that the test can give: all of one set above the other."""
    return 2 / math.comb(a + b, a) if a + b < 50 else 0.0


def _dependence(*sets: Sequence[float]) -> float:
    """By how much neighbours' dependence shrinks the number of samples, at least 1: (1 + r) / (1 - r).

    r is the correlation of successive ranks within the sets, corrected for its bias of -1/n.
    """
    products = squares = 0.0
    for samples in sets:
        ordered = sorted(samples)
        # Equal samples share their mean rank.
        ranks = [(bisect_left(ordered, value) + bisect_right(ordered, value) - 1) / 2 for value in samples]
        centred = [rank - (len(samples) - 1) / 2 for rank in ranks]
        products += sum(x * y for x, y in itertools.pairwise(centred))
        squares += sum(x * x for x in centred)
    if not squares:
        return 1.0
    r = products / squares + 2 / sum(map(len, sets))
    r = min(max(r - _INDEPENDENT, 0.0), 0.9)
    return (1 + r) / (1 - r)


def _drifts(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether the halves of one set differ by as much as the sets."""
    between = abs(statistics.median(b) - statistics.median(a))
    halves = [(samples[: len(samples) // 2], samples[len(samples) // 2 :]) for samples in (a, b)]
    return any(abs(statistics.median(late) - statistics.median(early)) >= between for early, late in halves)


def _spread(samples: Sequence[float]) -> float:
    """The coefficient of variation, from logarithms; infinite where a sample is not positive."""
    if len(samples) < 2 or min(samples) <= 0:
        return math.inf
    logarithms = list(map(math.log, samples))
    mean = math.fsum(logarithms) / len(samples)
    return math.sqrt(math.fsum((each - mean) ** 2 for each in logarithms) / (len(samples) - 1))


def _needed(spread: float, dependence: float) -> int | None:
    """From the normal approximation to the test's power, on logarithms."""
    if math.isinf(spread):
        return None
    scores = _NORMAL.inv_cdf(1 - LEVEL / 2) + _NORMAL.inv_cdf(_POWER)
    count = 2 * (scores * spread / math.log(1 + SLOWDOWN)) ** 2 / _EFFICIENCY * dependence
    return max(4, math.ceil(count))
