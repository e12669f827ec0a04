"""The machine's peak rates and bandwidths, measured in the same run as the kernels."""

import os
from typing import Any, Dict, Optional

import torch

from .. import build, toolchain

SOURCE_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "csrc")
SOURCES = ("machine.cpp",)
NAME = "fused_attention_bench"

BANDWIDTH_BYTES = 1 << 27  # of each buffer: larger than the caches of a core
MATMUL_SIZE = 8192  # on a GPU

_loaded = False


def load() -> None:
    """Build and load csrc/, which registers torch.ops.fused_attention_bench. Raises build.BuildError."""
    global _loaded
    if not _loaded:
        try:
            build.build_library(SOURCE_FOLDER, SOURCES, toolchain.find(), NAME)
        except (toolchain.ToolchainError, ValueError, OSError) as error:
            raise build.BuildError(str(error)) from error
        _loaded = True


class Roofs:
    """`peaks`: GFLOP/s by dtype. `bandwidths`: GB/s, "read" and "copy" (read and written). `how` says of what.

    On the CPU the peaks are those of a loop of nothing but multiply-adds, or for bfloat16 of AMX's tile products or of
    dot products, where the processor has them and they are faster, on torch's threads, each by its own CPU time. Halves
    that the processor cannot multiply have the float32 peak. On a GPU they are those of torch.matmul at 8192, and
    bandwidth is a copy's.
    """

    def __init__(self, peaks: Dict[str, float], bandwidths: Dict[str, float], how: Dict[str, str]) -> None:
        self.peaks = peaks
        self.bandwidths = bandwidths
        self.how = how

    def records(self, params: Dict[str, Any]) -> list:
        """One for each number."""
        found = []
        for dtype, peak in self.peaks.items():
            found.append(_record("machine.peak", "GFLOP/s", peak, dict(params, dtype=dtype, how=self.how[dtype])))
        for kind, rate in self.bandwidths.items():
            found.append(_record("machine.bandwidth", "GB/s", rate, dict(params, kind=kind)))
        return found


def roofs(device: str) -> Roofs:
    """Measure the roofs, in a second or two. On the CPU, raises build.BuildError if the loops do not compile."""
    return _cuda_roofs() if device.startswith("cuda") else _cpu_roofs()


def _cpu_roofs() -> Roofs:
    load()
    ops = torch.ops.fused_attention_bench
    fp32, bf16 = ops.peak(False) / 1e9, ops.peak(True) / 1e9
    isa32, isa16 = ops.peak_isa(False), ops.peak_isa(True)
    bandwidths = {
        "read": ops.bandwidth(False, BANDWIDTH_BYTES) / 1e9,
        "copy": ops.bandwidth(True, BANDWIDTH_BYTES) / 1e9,
    }
    # The kernels use no instruction that multiplies float16.
    peaks = {"float32": fp32, "bfloat16": bf16, "float16": fp32}
    return Roofs(peaks, bandwidths, {"float32": isa32, "bfloat16": isa16, "float16": isa32})


def _cuda_roofs() -> Roofs:
    peaks = {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        x = torch.randn(MATMUL_SIZE, MATMUL_SIZE, device="cuda").to(dtype)
        out = torch.empty_like(x)
        milliseconds = _cuda_best(lambda x=x, out=out: torch.matmul(x, x, out=out))
        peaks[name] = 2 * MATMUL_SIZE**3 / milliseconds / 1e6
    source = torch.ones(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copied = 2 * source.numel() / _cuda_best(lambda: target.copy_(source)) / 1e6
    return Roofs(peaks, {"copy": copied}, dict.fromkeys(peaks, "torch.matmul %d" % MATMUL_SIZE))


def _cuda_best(function: Any) -> float:
    """Milliseconds of the best of ten calls."""
    times = []
    for _ in range(10):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return min(times)


def peak_bytes(function: Any, device: str) -> Optional[int]:
    """The peak memory of one call in torch's allocator, with its result; None if unknown.

    The driver's figure would be of the whole process and its cache, the same for every method. What a method takes
    from malloc by itself, as MKL and oneDNN do for their packed operands, is not in it.
    """
    if device.startswith("cuda"):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        function()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    try:
        load()
    except build.BuildError:
        return None
    torch.ops.fused_attention_bench.count_bytes()
    try:
        out = function()
    finally:
        peak = torch.ops.fused_attention_bench.peak_bytes()
    del out
    return int(peak)


def _record(metric: str, unit: str, value: float, params: Dict[str, Any]) -> Dict[str, Any]:
    return {"metric": metric, "unit": unit, "median": value, "samples": [value], "params": params}
