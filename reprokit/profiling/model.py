"""The result of any profiler. Containers write it, so each number and text is checked."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from reprokit.untrusted.model import FrozenModel

_Number = Annotated[FiniteFloat, Field(ge=0, le=1e18)]
_Size = Annotated[int, Field(ge=0, le=1 << 60)]
_Percent = Annotated[FiniteFloat, Field(ge=0, le=1000)]
_Sizes = Annotated[tuple[_Size, ...], Field(max_length=3)]


class HotSpot(FrozenModel):
    """A kernel, operator or function. `seconds` is its self time, None if only its `share` is known.

    `count` is the number of calls, launches or samples. `flop` is the counted work, done in `work_seconds`.
    `compute` and `memory` are per cent of the GPU's peaks; `occupancy` is per cent of the warps that fit.
    """

    name: Annotated[str, Field(max_length=20_000)]
    kind: Literal["gpu", "cpu"]
    count: _Size | None = None
    seconds: _Number | None = None
    share: _Percent | None = None
    grid: _Sizes = ()
    block: _Sizes = ()
    registers: _Size | None = None
    occupancy: _Percent | None = None
    compute: _Percent | None = None
    memory: _Percent | None = None
    flop: _Number | None = None
    work_seconds: _Number | None = None
    on_gpu: bool = False

    @property
    def rate(self) -> float | None:
        """GFLOP/s; None if no work was counted."""
        return _finite(self.flop / self.work_seconds / 1e9) if self.flop and self.work_seconds else None


class Summary(FrozenModel):
    """The most expensive `rows` first; `totals` are the seconds of all rows by kind; `device` is the GPU's name."""

    rows: Annotated[tuple[HotSpot, ...], Field(max_length=1000)] = ()
    totals: dict[Literal["gpu", "cpu"], _Number] = Field(default={})
    device: Annotated[str, Field(max_length=200)] = ""

    def share(self, row: HotSpot) -> float | None:
        """Per cent of the time of its kind."""
        total = self.totals.get(row.kind, 0.0)
        return row.share if row.seconds is None or not total else _finite(100 * row.seconds / total)


def _finite(number: float) -> float | None:
    """The number, None if it is infinite: a profiler may print a time of almost 0."""
    return number if math.isfinite(number) else None
