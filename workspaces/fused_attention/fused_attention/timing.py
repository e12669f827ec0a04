"""Times of several functions, taken in turns so that a machine's mood meets all of them alike."""

import time
from typing import Callable, Dict, List, Mapping, Optional

import torch

Function = Callable[[], torch.Tensor]

SAMPLE_MS = 2.0  # calls are repeated within a sample until it lasts this long
MIN_SAMPLES = 3


def interleaved(
    functions: Mapping[str, Function], device: str, repeats: int, budget_s: float
) -> Dict[str, List[float]]:
    """Milliseconds a call: up to `repeats` samples of each, one of each in turn.

    Stops early, at no fewer than MIN_SAMPLES, once `budget_s` is spent. Each function is warmed up first.
    """
    measure = _measure_cuda if device.startswith("cuda") else _measure_cpu
    calls = {}
    for name, function in functions.items():
        function()
        calls[name] = max(1, int(SAMPLE_MS / max(measure(function, 1), 1e-4)))
    samples = {name: [] for name in functions}  # type: Dict[str, List[float]]
    deadline = time.perf_counter() + budget_s
    for turn in range(repeats):
        if turn >= MIN_SAMPLES and time.perf_counter() > deadline:
            break
        for name, function in functions.items():
            samples[name].append(measure(function, calls[name]))
    return samples


def peak_bytes(function: Function, device: str) -> Optional[int]:
    """What one call takes from torch's allocator at its peak, its result included; None on the CPU.

    The driver's figure would be of the whole process and its cache, the same for every method.
    """
    if not device.startswith("cuda"):
        return None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _measure_cpu(function: Function, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) * 1000 / calls


def _measure_cuda(function: Function, calls: int) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        function()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / calls
