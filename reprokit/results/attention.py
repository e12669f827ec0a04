"""Cells of the attention benchmark: one case with the time of every method. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, Field, ValidationError

from reprokit.formatting import counted
from reprokit.results.record import Record
from reprokit.results.roofline import UNITS
from reprokit.untrusted.text import escaped

TIME = "fused_attention.forward"
_OURS = "ours"
_LONGEST_ABOUT = 300
# Beyond these, an axis could not be drawn.
_LEAST, _MOST = 1e-50, 1e50
# Cells of one plot agree in these, and in these parameters.
_CONDITIONS = (
    "variant", "image_digest", "commit", "dirty", "changes", "cpu", "threads", "gpu", "driver", "node",
)  # fmt: skip
_SETTING = ("device", "threads", "heads", "kv_heads", "dim", "clock")
_KEY = ("device", "threads", "batch", "heads", "kv_heads", "seq", "dim", "dtype", "mask")


_Size = Annotated[int, Field(ge=1, le=1 << 30)]


class _Params(BaseModel, frozen=True, strict=True):
    """What is drawn of a record's parameters, which may hold anything. Sizes also become names of files."""

    batch: _Size = 1
    seq: _Size = 1
    dtype: Literal["float32", "bfloat16", "float16", ""] = ""
    mask: str = ""
    impl: str = ""


@dataclass(frozen=True)
class Cell:
    """`times`: median milliseconds by method. `gflop` is the useful work, `mbyte` the least memory traffic."""

    batch: int
    seq: int
    dtype: str
    mask: str
    gflop: float
    mbyte: float
    times: Mapping[str, float]

    @property
    def best_other(self) -> str:
        return min((name for name in self.times if not name.startswith(_OURS)), key=self.times.__getitem__)

    @property
    def speedup(self) -> float:
        """The fastest other method's time as a multiple of ours."""
        return self.times[self.best_other] / self.times[_OURS]

    @property
    def intensity(self) -> float:
        """Useful floating-point operations a byte that must be moved."""
        return 1e3 * self.gflop / self.mbyte

    def rate(self, method: str = _OURS) -> float:
        """GFLOP/s of useful work."""
        return 1e3 * self.gflop / self.times[method]


@dataclass(frozen=True)
class Measured:
    """The results of one machine. `peaks`: GFLOP/s by dtype; `bandwidth`: GB/s, None if not measured."""

    cells: Sequence[Cell]
    peaks: Mapping[str, float] = field(default_factory=dict)
    bandwidth: float | None = None
    about: str = ""


def measured(records: Sequence[Record]) -> Measured:
    """The cells that have times of ours and of another method; a later time replaces an earlier one.

    They are of the conditions of the last time. Numbers in other units are not understood.
    """
    records = [record for record in records if record.unit == _unit(record.metric)]
    shown = _of_the_last(records)
    hidden = sum(record.metric == TIME for record in records) - sum(record.metric == TIME for record in shown)
    params: dict[str, _Params] = {}
    times: dict[str, dict[str, float]] = {}
    work: dict[str, float] = {}
    traffic: dict[str, float] = {}
    peaks: dict[str, float] = {}
    bandwidths: dict[str, float] = {}
    for record in shown:
        median = statistics.median(record.samples)
        try:
            case = _Params.model_validate(dict(record.params))
        except ValidationError:
            continue
        if not _LEAST <= median <= _MOST:
            continue
        key = repr([record.params.get(name) for name in _KEY])
        if record.metric == TIME and case.impl and case.dtype:
            params[key] = case
            times.setdefault(key, {})[case.impl] = median
        elif record.metric == "fused_attention.work":
            work[key] = median
        elif record.metric == "fused_attention.traffic":
            traffic[key] = median
        elif record.metric == "machine.peak":
            peaks[case.dtype] = median
        elif record.metric == "machine.bandwidth":
            bandwidths[str(record.params.get("kind"))] = median
    cells = [
        Cell(p.batch, p.seq, p.dtype, p.mask, work[key], traffic[key], times[key])
        for key, p in params.items()
        if _OURS in times[key]
        and key in work
        and key in traffic
        and any(not name.startswith(_OURS) for name in times[key])
    ]
    about = _about(shown) + (f"; {hidden} records of other conditions are not shown" if hidden else "")
    return Measured(cells, peaks, max(bandwidths.values(), default=None), about)


def _unit(metric: str) -> str | None:
    return "ms" if metric == TIME else UNITS.get(metric) or UNITS.get(f".{metric.rpartition('.')[2]}")


def _of_the_last(records: Sequence[Record]) -> list[Record]:
    """The records that agree with the latest time in conditions and, as far as they have them, in parameters."""
    timed = [(record.time, place, record) for place, record in enumerate(records) if record.metric == TIME]
    if not timed:
        return []
    _, _, last = max(timed, key=lambda each: each[:2])
    params = {name: last.params.get(name) for name in _SETTING}
    return [
        record
        for record in records
        if all(getattr(record, name) == getattr(last, name) for name in _CONDITIONS)
        and all(record.params.get(name, value) == value for name, value in params.items())
    ]


def _about(records: Sequence[Record]) -> str:
    """Machine, threads, versions and date of the last record."""
    timed = [record for record in records if record.metric == TIME]
    if not timed:
        return ""
    last = timed[-1]
    threads = last.params.get("threads", last.threads)
    clock = {"thread": "CPU time of the thread", "wall": "wall clock", "events": "CUDA events"}
    about = ", ".join(
        part
        for part in (
            last.gpu or last.cpu,
            counted(threads, "thread") if not last.gpu else "",
            f"torch {last.environment['torch']}" if "torch" in last.environment else "",
            f"medians of {clock.get(str(last.params.get('clock', '')), 'time')}",
            last.time[:10],
        )
        if part
    )
    return escaped(about)[:_LONGEST_ABOUT]
