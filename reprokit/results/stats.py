"""Compare two sets of timings: effect with interval, a test, and the number of samples needed. Pure.

Timings are skewed and drift, so medians and ranks are compared, and dependent neighbouring samples count as fewer.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from reprokit.errors import UsageError
from reprokit.installation import extra_command

# Two measurements of one build differ by this on a busy machine; smaller differences are ignored.
MARGIN = 0.02
LEVEL = 0.05  # of the test
# Noisier timings (coefficient of variation) have noisy spells, which look like differences. So the test must be surer
# (tests/performance/compare.py).
_QUIET, _NOISY_LEVEL = 0.033, 0.005
# With 10 samples, smaller dependence is indistinguishable from chance.
_INDEPENDENT = 0.1
# `needed` samples find this slow-down with this power.
SLOWDOWN, _POWER = 0.05, 0.9
_RESAMPLES = 2000
# The rank-sum test needs this many samples more than a t-test, for normal data at worst.
_EFFICIENCY = 3 / math.pi
_EXACT_MOST = 400  # pairs of samples for which the exact distribution is computed
_NORMAL = statistics.NormalDist()

Judgement = Literal["higher", "lower", "no difference found", "too few samples"]


@dataclass(frozen=True)
class Effect:
    """The median of B as a multiple of that of A, with its 95 % interval; None if A's median is 0 or negative.

    `p` is the two-sided probability of such ranks without a difference. `needed` is the number of samples in each set
    that would find a slow-down of 5 % in 9 of 10 comparisons, None if unknown.
    """

    ratio: float | None
    low: float | None
    high: float | None
    p: float
    judgement: Judgement
    needed: int | None


def effect(a: Sequence[float], b: Sequence[float]) -> Effect:
    """Compare samples in the order of measurement. Raises UsageError if scipy is missing."""
    first, second = statistics.median(a), statistics.median(b)
    dependence = _dependence(a, b)
    ratio = second / first if first > 0 and second < first * 1e150 else None
    low, high = ratio_interval(a, b, dependence)
    p = _p_value(a, b, dependence)
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
    """The 95 % interval of median(b) / median(a) by bootstrap; None if it is undefined."""
    if min(len(a), len(b)) < 2 or min(*a, *b) <= 0:
        return None, None
    middle = math.log(statistics.median(b)) - math.log(statistics.median(a))
    left, right = (sorted(map(math.log, samples)) for samples in (a, b))
    ranks = zip(_middle_ranks(len(a), 0), _middle_ranks(len(b), 1), strict=True)
    drawn = sorted(right[second] - left[first] for first, second in ranks)
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


def _p_value(a: Sequence[float], b: Sequence[float], dependence: float) -> float:
    """The Mann-Whitney test, with its score reduced to the number of independent samples."""
    try:
        from scipy.stats import mannwhitneyu, norm
    except ImportError:
        hint = f"install it: `{extra_command('results')}`"
        raise UsageError("comparing results needs scipy", hint=hint) from None
    exact = len(a) * len(b) <= _EXACT_MOST and len({*a, *b}) == len(a) + len(b)
    p = float(mannwhitneyu(a, b, method="exact" if exact else "asymptotic").pvalue)
    if not 0 < p < 1:  # NaN if all samples are equal
        return 0.0 if p == 0 else 1.0
    # Through the upper tail, which is exact for the smallest p, too.
    return float(2 * norm.sf(norm.isf(p / 2) / math.sqrt(dependence)))


def _least_p(a: int, b: int) -> float:
    """The smallest p that the test can give: all of one set above the other."""
    return 2 / math.comb(a + b, a) if a + b < 50 else 0.0


def _dependence(*sets: Sequence[float]) -> float:
    """The factor by which neighbours' dependence shrinks the number of samples, at least 1: (1 + r) / (1 - r).

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
    """The coefficient of variation, from logarithms; infinite if a sample is not positive."""
    if len(samples) < 2 or min(samples) <= 0:
        return math.inf
    logarithms = list(map(math.log, samples))
    mean = math.fsum(logarithms) / len(samples)
    return math.sqrt(math.fsum((each - mean) ** 2 for each in logarithms) / (len(samples) - 1))


def _needed(spread: float, dependence: float) -> int | None:
    """The samples needed, from the normal approximation to the test's power, on logarithms."""
    if math.isinf(spread):
        return None
    scores = _NORMAL.inv_cdf(1 - LEVEL / 2) + _NORMAL.inv_cdf(_POWER)
    count = 2 * (scores * spread / math.log(1 + SLOWDOWN)) ** 2 / _EFFICIENCY * dependence
    return max(4, math.ceil(count))
