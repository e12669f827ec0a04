"""Peak rates of GPUs from their data sheets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reprokit.compat.facts import Facts
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.schema import PeakRow
from reprokit.errors import UsageError

# Slices of a GPU, and laptop models, whose clocks are the maker's choice.
_OTHER_CLOCKS = re.compile(r"\b(mig|laptop|mobile|max-?q)\b", re.IGNORECASE)
_TRANSFERS = 2  # a clock


@dataclass(frozen=True)
class DevicePeaks:
    """GFLOP/s of float32 and of float16 in tensor cores (None without them), GB/s of the memory, and where from."""

    name: str
    fp32: float
    tensor: float | None
    bandwidth: float
    how: str
    sources: tuple[str, ...]


def peaks_of(facts: Facts, name: str) -> DevicePeaks | None:
    """The peaks of a GPU by any of its names, such as `Tesla V100-SXM2-16GB`; None if no data sheet is known."""
    try:
        gpu = None if _OTHER_CLOCKS.search(name) else parse_gpu(facts, name)
    except UsageError:
        return None
    words = set(re.findall(r"[a-z]+|\d+gb", name.lower()))
    fits = (row for row in facts.peaks.gpus if gpu and row.name == gpu.name and words >= set(row.words))
    return next(map(_peaks, fits), None)


def known_peaks(facts: Facts) -> list[DevicePeaks]:
    """All GPUs of the table."""
    return [_peaks(row) for row in facts.peaks.gpus]


def _peaks(row: PeakRow) -> DevicePeaks:
    fp32 = 2 * row.cores * row.boost_mhz / 1e3
    how = f"{row.cores} cores x 2 x {row.boost_mhz} MHz"
    bandwidth = float(row.bandwidth_gbs)
    if row.memory_mhz:
        bandwidth = row.memory_mhz * row.bus_bits * _TRANSFERS / 8e3
        how += f"; {row.memory_mhz} MHz x {row.bus_bits} bit x {_TRANSFERS}"
    name = " ".join([row.name, *(word.upper() for word in row.words)])
    return DevicePeaks(name, fp32, row.tensor_gflops, bandwidth, how, row.source)
