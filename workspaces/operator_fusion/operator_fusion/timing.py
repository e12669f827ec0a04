"""Times of functions in turns, so that a change of the machine's speed meets all of them, and ratios of pairs."""

import random
import statistics
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

import torch

SAMPLE_MS = 2.0  # calls are repeated within a sample until it lasts this long
MIN_ROUNDS = 3
RESAMPLES = 1000

Samples = Dict[Any, List[float]]


class Ratio(NamedTuple):
    """The median of pairwise ratios and its 95 % bootstrap interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


def clock_of(device: str) -> str:
    """The clock of `interleaved`.

    "events": CUDA's, around a graph of the calls, as an H200 runs the kernels of a layer faster than Python launches
    them. "thread": CPU time of the calling thread, which other programs do not add to; on one thread. Else "wall".
    """
    if device != "cpu":
        return "events"
    return "thread" if torch.get_num_threads() == 1 else "wall"


def interleaved(
    functions: Mapping[Any, Callable[[], Any]], device: str, rounds: int, budget_s: float = float("inf")
) -> Samples:
    """Milliseconds a call, one sample of each function a round, in alternating order.

    Each function is called at least twice before. One with several names is sampled for each of them. Stops at no fewer
    than MIN_ROUNDS once `budget_s` is spent.
    """
    clock = clock_of(device)
    samplers: Dict[Callable[[], Any], Callable[[], float]] = {}
    for function in functions.values():
        if function not in samplers:
            function()
            calls = max(1, int(SAMPLE_MS / max(_sampler(function, 1, clock)(), 1e-4)))
            samplers[function] = _sampler(function, calls, clock)
    samples: Samples = {name: [] for name in functions}
    deadline = time.perf_counter() + budget_s
    order = list(functions)
    for turn in range(rounds):
        if turn >= MIN_ROUNDS and time.perf_counter() > deadline:
            break
        for name in order:
            samples[name].append(samplers[functions[name]]())
        order.reverse()
    return samples


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Of samples taken in the same rounds: the median of above / below."""
    return interval([a / b for a, b in zip(above, below)])


def interval(pairs: Sequence[float]) -> Ratio:
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return Ratio(statistics.median(pairs), medians[RESAMPLES // 40], medians[-RESAMPLES // 40 - 1])


def _sampler(function: Callable[[], Any], calls: int, clock: str) -> Callable[[], float]:
    """Returns the mean milliseconds of `calls` calls."""
    if clock == "events":
        from fused_attention.bench.timing import cuda_sampler

        return cuda_sampler(function, calls)
    now = time.thread_time if clock == "thread" else time.perf_counter

    def sample() -> float:
        start = now()
        for _ in range(calls):
            function()
        return (now() - start) * 1000 / calls

    return sample
