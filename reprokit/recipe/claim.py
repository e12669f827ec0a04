"""A result that a paper states, in terms of the recipe's benchmarks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from reprokit.recipe import fields as f
from reprokit.recipe.packages import RecipePart

_TIMES = {"s": 0, "ms": -3, "us": -6, "µs": -6, "μs": -6, "ns": -9}  # powers of ten of a second


class ClaimBaseline(RecipePart):
    """What a claimed ratio is relative to: another metric, case or variant, or a number of the paper."""

    metric: f.Line = Field(default="", description="a benchmark's metric; by default that of the claim")
    params: dict[str, str | int | float | bool] = Field(
        default={}, description="parameters of its records; of several cases the best counts"
    )
    variant: f.Line = Field(default="", description="its variant; by default that of the claim's records")
    value: float | int | None = Field(default=None, description="a number in place of a metric")
    unit: f.Line = Field(default="", description="of `value`, such as ms; only times are converted")

    @model_validator(mode="after")
    def _one_origin(self) -> ClaimBaseline:
        if self.unit and self.value is None:
            raise ValueError("the `unit` of a baseline is that of its `value`")
        if (self.value is not None) == bool(self.metric or self.params or self.variant):
            raise ValueError("a baseline has either `value`, or `metric`, `params` or `variant`")
        return self


class Claim(RecipePart):
    """A result that the paper states."""

    metric: f.Line = Field(description="a benchmark's metric if one measures it, else words")
    value: float | int = Field(description="the number; with a baseline, how many times better")
    unit: f.Line = Field(default="", description="such as ms, or x for a ratio; only times are converted")
    benchmark: f.Line = Field(default="", description="only records of this benchmark; any by default")
    params: dict[str, str | int | float | bool] = Field(default={}, description="parameters of the records it is about")
    baseline: ClaimBaseline | None = Field(default=None, description="what a ratio is relative to")
    better: Literal["lower", "higher"] = Field(default="lower", description="which values of the metric are better")
    over: Literal["case", "best", "mean"] = Field(
        default="case", description="of several cases: there is only one, the best ratio, or the geometric mean"
    )
    tolerance: float = Field(default=0.1, gt=0, lt=1, description="relative difference that still reproduces it")
    hardware: f.Line = Field(description="hardware of the measurement, in words")
    gpu: f.Line = Field(
        default="",
        description="its GPU, as in `check --gpu`, or such as `8x A100`; `any` for some GPU, `none` for a CPU",
    )
    cpu: f.Line = Field(default="", description="words of its CPU's name, such as Xeon E5-2680")
    where: f.Line = Field(description="table, figure or section of the paper")


def unit_factor(unit: str, other: str) -> float | None:
    """What a number in `unit` is multiplied by to be in the other; None if they measure different things."""
    if unit == other:
        return 1.0
    return 10.0 ** (_TIMES[unit] - _TIMES[other]) if unit in _TIMES and other in _TIMES else None


def check_units(claims: Iterable[Claim], benchmark: str, units: Iterable[tuple[str, str]]) -> None:
    """Raise ValueError for a claim in another unit than a benchmark's, which is given by metric."""
    for metric, unit in units:
        for claim in claims:
            if claim.metric != metric or claim.benchmark not in ("", benchmark):
                continue
            if claim.baseline and claim.baseline.value is None:
                continue
            claimed = claim.baseline.unit if claim.baseline else claim.unit
            if unit_factor(unit, claimed) is None:
                raise ValueError(f"the claim about {metric} is in {claimed!r}, but {benchmark} measures it in {unit!r}")
