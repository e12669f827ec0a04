"""Judge a paper's claims by what was measured: reproduced, not reproduced, not comparable, or not measured. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from reprokit.compat.facts import Facts
from reprokit.recipe.claim import Claim, ClaimBaseline, unit_factor
from reprokit.recipe.model import Recipe
from reprokit.results.claim_benchmarks import command_of, unmeasured
from reprokit.results.hardware import other_hardware
from reprokit.results.likeness import IDENTITY, Group, differing, has_params, key_of, latest_alike
from reprokit.results.stats import ratio_interval
from reprokit.results.tables import number, shown
from reprokit.tables import ReportTable

Verdict = Literal["reproduced", "not reproduced", "not comparable", "not measured"]
# Groups that agree in these are of one implementation, measured under other conditions.
_IMPLEMENTATION = ("metric", "params", "variant")
_NO_RATIO = "no ratio: a number is 0 or less, or too large"
# What one verdict is about; and a baseline was measured under the same conditions.
_SETTING = ("variant", "cpu", "gpu", "driver", "threads", "node")
_CONDITIONS = (*_SETTING, "image_digest", "files")
_QUESTION = ("metric", "unit", "params", "benchmark", "command")
_IMAGE = ("variant", "image_digest", "input_hash", "environment")


@dataclass(frozen=True)
class JudgedClaim:
    """`measured` is in the claim's unit; `ratio` is measured over claimed, with its 95 % interval where known.

    `command` would measure the claim. `groups` are what the claim was judged by.
    """

    recipe: str
    claim: Claim
    verdict: Verdict
    reason: str = ""
    measured: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    command: str = ""
    groups: tuple[Group, ...] = ()

    def to_json(self) -> dict[str, Any]:
        names = ("verdict", "reason", "measured", "ratio", "low", "high", "command")
        claim = self.claim.model_dump(mode="json", exclude_defaults=True)
        return {"recipe": self.recipe, "claim": claim, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class _Found:
    """A measured value with its 95 % interval, and the groups of records behind it.

    `without` says which cases do not count, and why; `missing` which combinations of a matrix were not measured.
    """

    value: float
    interval: tuple[float | None, float | None]
    groups: tuple[Group, ...]
    without: str = ""
    missing: str = ""


def judge(recipe: Recipe, groups: Sequence[Group], facts: Facts) -> list[JudgedClaim]:
    """The verdict on each claim of a recipe."""
    mine = [group for group in groups if group.identity["recipe"] == recipe.name]
    return [_judged(recipe, claim, mine, facts) for claim in recipe.claims]


def _judged(recipe: Recipe, claim: Claim, groups: Sequence[Group], facts: Facts) -> JudgedClaim:
    command = command_of(recipe, claim)
    groups = [group for group in groups if claim.benchmark in ("", group.identity["benchmark"])]
    same = [group for group in groups if group.identity["metric"] == claim.metric]
    if not same:
        reason = "" if command else "no benchmark of the recipe measures it"
        return JudgedClaim(recipe.name, claim, "not measured", reason, command=command)
    cases = [group for group in same if has_params(group.identity["params"], claim.params)]
    if not cases:
        wanted = ", ".join(f"{name} {shown(value)}" for name, value in claim.params.items())
        return JudgedClaim(recipe.name, claim, "not comparable", f"measured for other cases, not {wanted}")
    fitting = [group for group in cases if not other_hardware(claim, group.identity, facts)]
    of_one, others = latest_alike(fitting or cases, _SETTING)
    found = _measured(claim, of_one, groups)
    if isinstance(found, str):
        reason = "; ".join(filter(None, (found, others)))
        return JudgedClaim(recipe.name, claim, "not comparable", reason, command=command)
    if claim.over != "case":
        found = replace(found, missing=unmeasured(recipe, claim, of_one))
    ratio, low, high = (_ratio(value, claim.value) for value in (found.value, *found.interval))
    verdict: Verdict = "not comparable"
    if not fitting:
        reason = other_hardware(claim, found.groups[0].identity, facts)
    elif ratio is None:
        reason = _NO_RATIO
    else:
        verdict, reason = _verdict(claim, ratio)
    reason = "; ".join(filter(None, (reason, others, *_doubts(claim, found))))
    return JudgedClaim(recipe.name, claim, verdict, reason, found.value, ratio, low, high, command, found.groups)


def _doubts(claim: Claim, found: _Found) -> Iterator[str]:
    """What a reader should know of the records behind a verdict."""
    yield from filter(None, (found.without, found.missing))
    if not claim.gpu:
        yield "the recipe does not say on which GPU it was measured"
    if claim.gpu == "none" and not claim.cpu:
        yield "the recipe does not say on which CPU it was measured"
    if any(group.identity["dirty"] for group in found.groups):
        yield "measured in a checkout with changes"
    of_image = _IMAGE if claim.baseline and claim.baseline.variant else ()
    apart = _apart(found.groups, set(IDENTITY) - {*_QUESTION, *of_image})
    if apart:
        yield f"its records differ in {apart}"
    yield from dict.fromkeys(f"in doubt: {text}" for group in found.groups for text in group.doubts)


def _apart(groups: Sequence[Group], names: Collection[str]) -> str:
    """The fields among these in which groups differ."""
    return ", ".join(field for field in differing(groups) if field.partition(".")[0] in names)


def _verdict(claim: Claim, ratio: float) -> tuple[Verdict, str]:
    """A result that is better than claimed is reproduced, too."""
    rising = _rising(claim)
    worse = ratio < 1 - claim.tolerance if rising else ratio > 1 + claim.tolerance
    better = ratio > 1 + claim.tolerance if rising else ratio < 1 - claim.tolerance
    if worse:
        return "not reproduced", f"worse by more than {claim.tolerance:.0%}"
    return "reproduced", "better than claimed" if better else ""


def _rising(claim: Claim) -> bool:
    """Whether a higher number is better; a ratio says how many times better than the baseline."""
    return claim.baseline is not None or claim.better == "higher"


def _measured(claim: Claim, cases: Sequence[Group], groups: Sequence[Group]) -> _Found | str:
    """The measured value, or why there is none."""
    latest = _latest(cases)
    if claim.baseline is None:
        units = [group.identity["unit"] for group in latest]
        if other := [unit or "no unit" for unit in units if unit_factor(unit, claim.unit) is None]:
            return f"measured in {other[0]}, claimed in {claim.unit or 'no unit'}"
        found = [_single(group, claim.unit) for group in latest]
    else:
        pairs = [_relative(claim, claim.baseline, group, groups) for group in latest]
        found = [pair for pair in pairs if isinstance(pair, _Found)]
        if not found:
            return next(pair for pair in pairs if isinstance(pair, str))
        if reasons := [pair for pair in pairs if isinstance(pair, str)]:
            without = f"{len(reasons)} of {len(pairs)} cases do not count: {reasons[0]}"
            found = [replace(each, without=without) for each in found]
    if claim.over == "mean":
        if any(each.value <= 0 for each in found):
            return "no geometric mean: a number is 0 or less"
        mean = math.exp(statistics.fmean(math.log(each.value) for each in found))
        return _Found(mean, (None, None), tuple(group for each in found for group in each.groups), found[0].without)
    if claim.over == "best":
        return (max if _rising(claim) else min)(found, key=lambda each: each.value)
    if len(found) > 1:
        return f"{len(found)} cases were measured, and the claim is about one: `params` must name it"
    return found[0]


def _single(group: Group, unit: str) -> _Found:
    samples = _samples(group, unit)
    return _Found(statistics.median(samples), ratio_interval([1.0, 1.0], samples), (group,))


def _samples(group: Group, unit: str) -> list[float]:
    factor = unit_factor(group.identity["unit"], unit) or 1.0
    return [sample * factor for sample in group.samples]


def _relative(claim: Claim, baseline: ClaimBaseline, group: Group, groups: Sequence[Group]) -> _Found | str:
    """How many times better the group is than its baseline of the same case and conditions, or why that is unknown."""
    if baseline.value is not None:
        factor = unit_factor(baseline.unit, group.identity["unit"])
        if factor is None:
            measured = group.identity["unit"] or "no unit"
            return f"measured in {measured}, its baseline is in {baseline.unit or 'no unit'}"
        return _ratio_found(claim, [baseline.value * factor] * 2, group.samples, (group,))
    metric = baseline.metric or claim.metric
    cases = [
        other
        for other in groups
        if any(other.identity[name] != group.identity[name] for name in _IMPLEMENTATION)
        and other.identity["metric"] == metric
        and baseline.variant in ("", other.identity["variant"])
        and has_params(other.identity["params"], baseline.params)
        and ("impl" in baseline.params or not _variation(group, other))
        and _same_case(claim, baseline, group, other)
        and unit_factor(other.identity["unit"], group.identity["unit"])
        and other.median > 0
    ]
    if not cases or group.median <= 0:
        return "its baseline was not measured for the same case"
    others = [other for other in cases if not _apart((group, other), _conditions(baseline, other))]
    if not others:
        latest = max(cases, key=lambda other: other.last)
        return f"its baseline was measured apart: differs in {_apart((group, latest), _conditions(baseline, latest))}"
    unit = group.identity["unit"]
    best = (min if claim.better == "lower" else max)(
        _latest(others), key=lambda other: statistics.median(_samples(other, unit))
    )
    return _ratio_found(claim, _samples(best, unit), group.samples, (group, best))


def _ratio_found(
    claim: Claim, baseline: Sequence[float], samples: Sequence[float], groups: tuple[Group, ...]
) -> _Found | str:
    above, below = (baseline, samples) if claim.better == "lower" else (samples, baseline)
    ratio = _ratio(statistics.median(above), statistics.median(below))
    return _Found(ratio, ratio_interval(below, above), groups) if ratio else _NO_RATIO


def _ratio(value: float | None, other: float) -> float | None:
    """None where there is none: of numbers of 0 or less, and beyond what a float holds."""
    if value is None or value <= 0 or other <= 0:
        return None
    ratio = value / other
    return ratio if 0 < ratio < math.inf else None


def _conditions(baseline: ClaimBaseline, other: Group) -> tuple[str, ...]:
    """The fields in which a baseline agrees; one of another variant has another image, and on the CPU no GPU."""
    free = _IMAGE if baseline.variant else ()
    if baseline.variant and not other.identity["gpu"]:
        free = (*free, "gpu", "driver")
    return tuple(name for name in _CONDITIONS if name not in free)


def _latest(groups: Sequence[Group]) -> list[Group]:
    """The latest group of each case."""
    found: dict[str, Group] = {}
    for group in groups:
        key = key_of(group, ("benchmark", "metric", "params"))
        if key not in found or found[key].last < group.last:
            found[key] = group
    return list(found.values())


def as_lines(judged: Sequence[JudgedClaim]) -> list[tuple[str, list[str]]]:
    """For a terminal: each verdict, and beside it the claim, its numbers, and why or what measures it."""
    found = []
    for each, row in zip(judged, as_table(judged, "").rows, strict=True):
        claim, verdict, paper, measured, ratio, why, source = row
        numbers = f", measured {measured}, ratio {ratio}" if measured else ""
        lines = [f"{each.recipe}: {claim}", f"paper {paper} ({source}){numbers}", why]
        found.append((verdict, [line for line in lines if line]))
    return found


def as_table(judged: Sequence[JudgedClaim], title: str) -> ReportTable:
    rows = []
    for each in judged:
        claim = each.claim
        about = ", ".join(f"{name} {shown(value)}" for name, value in claim.params.items())
        interval = f" ({each.low:.2f}..{each.high:.2f})" if each.low is not None and each.high is not None else ""
        rows.append(
            (
                claim.metric + (f" ({about})" if about else ""),
                each.verdict,
                f"{number(claim.value)} {claim.unit}".strip(),
                "" if each.measured is None else f"{number(each.measured)} {claim.unit}".strip(),
                "" if each.ratio is None else f"{each.ratio:.2f}{interval}",
                each.reason or (each.command if each.verdict == "not measured" else ""),
                f"{claim.where}; {claim.hardware}",
            )
        )
    # A phone shows the first two columns without scrolling.
    columns = ("claim", "verdict", "paper", "measured", "ratio", "why, or what measures it", "source")
    return ReportTable(title, "", columns, tuple(rows), words=(0, 1, 5, 6))


def _variation(group: Group, other: Group) -> bool:
    """Whether the other is a variation of the same implementation, such as `ours-packed` of `ours`."""
    mine = group.identity["params"].get("impl")
    return mine is not None and str(other.identity["params"].get("impl", "")).startswith(f"{mine}-")


def _same_case(claim: Claim, baseline: ClaimBaseline, group: Group, other: Group) -> bool:
    """Whether the baseline agrees in the parameters, except those that make it another implementation."""
    mine, its = group.identity["params"], other.identity["params"]
    free = {"impl", *baseline.params, *(name for name in claim.params if name not in its)}
    case, its_case = ({n: repr(v) for n, v in params.items() if n not in free} for params in (mine, its))
    return case == its_case
