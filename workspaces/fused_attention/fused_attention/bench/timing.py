"""Time several functions in turns, so that the machine's noise affects all of them alike."""

import time
import warnings
from typing import Any, Callable, Dict, List, Mapping, NamedTuple

import torch

SAMPLE_MS = 2.0  # calls are repeated within a sample until it lasts this long
MIN_SAMPLES = 3
SLOW_FACTOR = 3.0
SLOW_MS = 100.0


class Timed(NamedTuple):
    """`context` is entered around calls of the function and around the capture of a graph of them. It is not timed."""

    function: Callable[[], Any]
    context: Callable[[], Any]


def clock_of(device: str) -> str:
    """The clock of `interleaved`.

    "thread": the calling thread's CPU time, which other programs do not add to; where torch has one thread.
    "wall": of the clock. "events": CUDA's, around a graph of the calls where they can be captured.
    """
    if device.startswith("cuda"):
        return "events"
    return "thread" if torch.get_num_threads() == 1 else "wall"


def interleaved(functions: Mapping[str, Timed], clock: str, repeats: int, budget_s: float) -> Dict[str, List[float]]:
    """Milliseconds a call: up to `repeats` samples of each, one of each in turn.

    Stops early, at no fewer than MIN_SAMPLES, once `budget_s` is spent. Each function is warmed up first. One that
    takes more than SLOW_MS and SLOW_FACTOR times as long as the second fastest has its last warm-up as its only
    sample: it is no rival, and would take most of the time.
    """
    warm, calls = {}, {}
    for name, timed in functions.items():
        with timed.context():
            sample = _sampler(timed.function, clock, 1)
            first = sample()
            warm[name] = first if first > SLOW_MS * SLOW_FACTOR else sample()
        calls[name] = max(1, int(SAMPLE_MS / max(warm[name], 1e-4)))
    rivals = sorted(warm.values())
    limit = max(SLOW_MS, SLOW_FACTOR * rivals[min(1, len(rivals) - 1)])
    samples = {name: [warm[name]] if warm[name] > limit else [] for name in functions}  # type: Dict[str, List[float]]
    turns = {}
    for name, timed in functions.items():
        if not samples[name]:
            with timed.context():
                turns[name] = _sampler(timed.function, clock, calls[name])
    deadline = time.perf_counter() + budget_s
    for turn in range(repeats):
        if turn >= MIN_SAMPLES and time.perf_counter() > deadline:
            break
        for name, sample in turns.items():
            with functions[name].context():
                samples[name].append(sample())
    return samples


def _sampler(function: Callable[[], Any], clock: str, calls: int) -> Callable[[], float]:
    """Returns the mean milliseconds of `calls` calls."""
    if clock == "events":
        return cuda_sampler(function, calls)
    now = _thread_seconds if clock == "thread" else time.perf_counter

    def sample() -> float:
        # Not timed: the method before may have left other data in the caches, or freed memory, which flushes the TLB.
        function()
        start = now()
        for _ in range(calls):
            function()
        return (now() - start) * 1000 / calls

    return sample


def _thread_seconds() -> float:
    # time.thread_time is younger than Python 3.6.
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def cuda_sampler(function: Callable[[], Any], calls: int) -> Callable[[], float]:
    """Returns the mean milliseconds of `calls` calls on the GPU."""
    replay = _captured(function, calls)

    def sample() -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / calls

    return sample


def _captured(function: Callable[[], Any], calls: int) -> Callable[[], None]:
    """The calls as one CUDA graph, so that the device is timed and not Python.

    Warns and returns plain calls where they cannot be captured.
    """

    def plain() -> None:
        for _ in range(calls):
            function()

    if not hasattr(torch.cuda, "CUDAGraph"):
        return plain
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            plain()
    except RuntimeError as error:
        torch.cuda.synchronize()
        why = str(error).splitlines()[0]
        warnings.warn("no CUDA graph (%s): times include Python's launches of kernels" % why, stacklevel=2)
        return plain
    return graph.replay
