"""Judge a paper's claims by what was measured: reproduced, not reproduced, not comparable, or not measured. Pure."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from reprokit.compat.facts import Facts
from reprokit.compat.gpu import parse_gpu
from reprokit.errors import UsageError
from reprokit.recipe.model import Claim, ClaimBaseline, Recipe, unit_factor
from reprokit.results.likeness import IDENTITY, Group, differing, has_params, key_of, latest_alike, texts
from reprokit.results.stats import ratio_interval
from reprokit.results.tables import number, shown
from reprokit.tables import ReportTable
from reprokit.untrusted.limits import CLAIM_SECONDS
from reprokit.untrusted.time_limit import processor_time

Verdict = Literal["reproduced", "not reproduced", "not comparable", "not measured"]
# Groups that agree in these are one implementation under different conditions.
_IMPLEMENTATION = ("metric", "params", "variant")
_NO_RATIO = "no ratio: a number is 0 or less, or too large"
# What one verdict is about; and a baseline was measured under the same conditions.
_SETTING = ("variant", "cpu", "gpu", "driver", "threads", "node")
_CONDITIONS = (*_SETTING, "image_digest", "files")
_QUESTION = ("metric", "unit", "params", "benchmark", "command")
_IMAGE = ("variant", "image_digest", "input_hash", "environment")
_COUNTED = re.compile("(?:([0-9]{1,4})x )?(.*)", re.DOTALL)
# A slice is a seventh of a GPU or more.
_PART = re.compile(r"\bMIG \S+", re.IGNORECASE)


@dataclass(frozen=True)
class JudgedClaim:
    """`measured` is in the claim's unit; `ratio` is measured over claimed, with its 95 % interval if known.

    `command` measures the claim. `groups` are those behind the verdict.
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
class _MeasuredValue:
    """A measured value, and the groups of records behind it.

    Its 95 % interval is that of the second median over the first of `compared`. `without` names the cases that do
    not count, and why.
    """

    value: float
    compared: tuple[Sequence[float], Sequence[float]] | None
    groups: tuple[Group, ...]
    without: str = ""


@dataclass(frozen=True)
class _Evidence:
    """The measurements for a claim, independent of its number; `value` is None if nothing is comparable.

    `reason` says why, else it is a remark. `fits` is whether the hardware is that of the claim.
    """

    reason: str
    command: str = ""
    value: _MeasuredValue | None = None
    interval: tuple[float | None, float | None] = (None, None)
    fits: bool = True
    verdict: Verdict = "not comparable"


class _Index:
    """The groups of records of a recipe, by metric and by parameter: a stranger may write thousands, and of claims."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._by_metric: dict[str, list[Group]] = {}
        for group in groups:
            self._by_metric.setdefault(group.identity["metric"], []).append(group)
        self._by_param: dict[str, dict[tuple[str, str], list[Group]]] = {}

    def measured(self, metric: str, benchmark: str) -> list[Group]:
        """The groups of a metric, of `benchmark` if it is not ""."""
        groups = self._by_metric.get(metric, [])
        return [group for group in groups if group.identity["benchmark"] == benchmark] if benchmark else groups

    def cases(self, metric: str, benchmark: str, params: Mapping[str, Any]) -> list[Group]:
        """Those of `measured` that have these parameters."""
        if not params:
            return self.measured(metric, benchmark)
        if metric not in self._by_param:
            by_param = self._by_param[metric] = {}
            for group in self._by_metric.get(metric, []):
                for name, value in group.identity["params"].items():
                    for text in texts(value):
                        by_param.setdefault((name, text), []).append(group)
        by_param = self._by_param[metric]
        candidates = [[by_param.get((name, text), []) for text in texts(value)] for name, value in params.items()]
        fewest = min(candidates, key=lambda lists: sum(map(len, lists)))
        alike = {id(group): group for groups in fewest for group in groups}
        fitting = [group for group in alike.values() if has_params(group.identity["params"], params)]
        return [group for group in fitting if benchmark in ("", group.identity["benchmark"])]


def judge(recipe: Recipe, groups: Sequence[Group], facts: Facts) -> list[JudgedClaim]:
    """The verdict on each claim of a recipe. Raises UsageError if it takes too long, as both may be a stranger's."""
    index = _Index(group for group in groups if group.identity["recipe"] == recipe.name)
    evidence: dict[str, _Evidence] = {}
    judged = []
    with processor_time(CLAIM_SECONDS.most, "judging the claims", recipe.name, CLAIM_SECONDS.hint):
        for claim in recipe.claims:
            key = claim.model_dump_json(exclude={"value", "tolerance", "hardware", "where"})
            if key not in evidence:
                evidence[key] = _evidence(recipe, claim, index, facts)
            judged.append(_judged(recipe, claim, evidence[key], facts))
    return judged


def _evidence(recipe: Recipe, claim: Claim, index: _Index, facts: Facts) -> _Evidence:
    command = command_of(recipe, claim)
    if not index.measured(claim.metric, claim.benchmark):
        return _Evidence("" if command else "no benchmark of the recipe measures it", command, verdict="not measured")
    cases = index.cases(claim.metric, claim.benchmark, claim.params)
    if not cases:
        wanted = ", ".join(f"{name} {shown(value)}" for name, value in claim.params.items())
        return _Evidence(f"measured for other cases, not {wanted}")
    fitting = [group for group in cases if not other_hardware(claim, group.identity, facts)]
    of_one, others = latest_alike(fitting or cases, _SETTING)
    value = _measured(claim, of_one, index)
    if isinstance(value, str):
        return _Evidence("; ".join(filter(None, (value, others))), command)
    missing = unmeasured(recipe, claim, of_one) if claim.over != "case" else ""
    interval = ratio_interval(*value.compared) if value.compared else (None, None)
    reason = "; ".join(filter(None, (others, value.without, missing, *_doubts(claim, value))))
    return _Evidence(reason, command, value, interval, bool(fitting))


def _judged(recipe: Recipe, claim: Claim, evidence: _Evidence, facts: Facts) -> JudgedClaim:
    value = evidence.value
    if value is None:
        return JudgedClaim(recipe.name, claim, evidence.verdict, evidence.reason, command=evidence.command)
    ratio, low, high = (_ratio(each, claim.value) for each in (value.value, *evidence.interval))
    verdict: Verdict = "not comparable"
    if not evidence.fits:
        reason = other_hardware(claim, value.groups[0].identity, facts)
    elif ratio is None:
        reason = _NO_RATIO
    else:
        verdict, reason = _verdict(claim, ratio)
    reason = "; ".join(filter(None, (reason, evidence.reason)))
    numbers = (value.value, ratio, low, high)
    return JudgedClaim(recipe.name, claim, verdict, reason, *numbers, evidence.command, value.groups)


def _doubts(claim: Claim, value: _MeasuredValue) -> Iterator[str]:
    """Reasons to doubt the records behind a verdict."""
    if not (claim.gpu or claim.cpu):
        yield "the recipe does not say on which GPU it was measured"
    if claim.gpu == "none" and not claim.cpu:
        yield "the recipe does not say on which CPU it was measured"
    if any(group.identity["dirty"] for group in value.groups):
        yield "measured in a checkout with changes"
    of_image = _IMAGE if claim.baseline and claim.baseline.variant else ()
    apart = _apart(value.groups, set(IDENTITY) - {*_QUESTION, *of_image})
    if apart:
        yield f"its records differ in {apart}"
    yield from dict.fromkeys(f"in doubt: {text}" for group in value.groups for text in group.doubts)


def _apart(groups: Sequence[Group], names: Collection[str]) -> str:
    """Those of the fields `names` in which groups differ."""
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


def _measured(claim: Claim, cases: Sequence[Group], index: _Index) -> _MeasuredValue | str:
    """The measured value, or why there is none."""
    latest = _latest(cases)
    if claim.baseline is None:
        units = [group.identity["unit"] for group in latest]
        if other := [unit or "no unit" for unit in units if unit_factor(unit, claim.unit) is None]:
            return f"measured in {other[0]}, claimed in {claim.unit or 'no unit'}"
        values = [_single(group, claim.unit) for group in latest]
    else:
        baselines = _Baselines(claim, claim.baseline, index)
        pairs = [_relative(claim, claim.baseline, group, baselines) for group in latest]
        values = [pair for pair in pairs if isinstance(pair, _MeasuredValue)]
        if not values:
            return next(pair for pair in pairs if isinstance(pair, str))
        if reasons := [pair for pair in pairs if isinstance(pair, str)]:
            without = f"{len(reasons)} of {len(pairs)} cases do not count: {reasons[0]}"
            values = [replace(each, without=without) for each in values]
    if claim.over == "mean":
        if any(each.value <= 0 for each in values):
            return "no geometric mean: a number is 0 or less"
        mean = math.exp(statistics.fmean(math.log(each.value) for each in values))
        return _MeasuredValue(mean, None, tuple(group for each in values for group in each.groups), values[0].without)
    if claim.over == "best":
        return (max if _rising(claim) else min)(values, key=lambda each: each.value)
    if len(values) > 1:
        return f"{len(values)} cases were measured, and the claim is about one: `params` must name it"
    return values[0]


def _single(group: Group, unit: str) -> _MeasuredValue:
    samples = _samples(group, unit)
    return _MeasuredValue(statistics.median(samples), ([1.0, 1.0], samples), (group,))


def _samples(group: Group, unit: str) -> list[float]:
    factor = unit_factor(group.identity["unit"], unit) or 1.0
    return [sample * factor for sample in group.samples]


class _Baselines:
    """The possible baselines of a claim, by case: parameters that a baseline may change are not part of the case."""

    def __init__(self, claim: Claim, baseline: ClaimBaseline, index: _Index) -> None:
        self._free = {"impl", *baseline.params}
        self._by_case: dict[frozenset[str], dict[str, list[Group]]] = {}
        for group in index.cases(baseline.metric or claim.metric, claim.benchmark, baseline.params):
            if baseline.variant in ("", group.identity["variant"]):
                # A parameter of the claim that a baseline lacks may make it another implementation.
                absent = frozenset(claim.params.keys() - group.identity["params"].keys())
                self._by_case.setdefault(absent, {}).setdefault(self._case(group, absent), []).append(group)

    def of(self, group: Group) -> list[Group]:
        """Those of the same case as `group`."""
        return [other for absent, cases in self._by_case.items() for other in cases.get(self._case(group, absent), ())]

    def _case(self, group: Group, absent: Collection[str]) -> str:
        params = group.identity["params"]
        return repr(sorted((name, repr(params[name])) for name in params.keys() - self._free - {*absent}))


def _relative(claim: Claim, baseline: ClaimBaseline, group: Group, baselines: _Baselines) -> _MeasuredValue | str:
    """How many times better the group is than its baseline of the same case and conditions, or why that is unknown."""
    if baseline.value is not None:
        factor = unit_factor(baseline.unit, group.identity["unit"])
        if factor is None:
            measured = group.identity["unit"] or "no unit"
            return f"measured in {measured}, its baseline is in {baseline.unit or 'no unit'}"
        return _ratio_value(claim, [baseline.value * factor] * 2, group.samples, (group,))
    cases = [
        other
        for other in baselines.of(group)
        if any(other.identity[name] != group.identity[name] for name in _IMPLEMENTATION)
        and ("impl" in baseline.params or not _variation(group, other))
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
    return _ratio_value(claim, _samples(best, unit), group.samples, (group, best))


def _ratio_value(
    claim: Claim, baseline: Sequence[float], samples: Sequence[float], groups: tuple[Group, ...]
) -> _MeasuredValue | str:
    above, below = (baseline, samples) if claim.better == "lower" else (samples, baseline)
    ratio = _ratio(statistics.median(above), statistics.median(below))
    return _MeasuredValue(ratio, (below, above), groups) if ratio else _NO_RATIO


def _ratio(value: float | None, other: float) -> float | None:
    """The ratio; None for numbers of 0 or less, or an infinite ratio."""
    if value is None or value <= 0 or other <= 0:
        return None
    ratio = value / other
    return ratio if 0 < ratio < math.inf else None


def _conditions(baseline: ClaimBaseline, other: Group) -> tuple[str, ...]:
    """The fields in which a baseline must agree; another variant has another image, and on the CPU no GPU."""
    free = _IMAGE if baseline.variant else ()
    if baseline.variant and not other.identity["gpu"]:
        free = (*free, "gpu", "driver")
    return tuple(name for name in _CONDITIONS if name not in free)


def _latest(groups: Sequence[Group]) -> list[Group]:
    """The latest group of each case."""
    latest: dict[str, Group] = {}
    for group in groups:
        key = key_of(group, ("benchmark", "metric", "params"))
        if key not in latest or latest[key].last < group.last:
            latest[key] = group
    return list(latest.values())


def as_lines(judged: Sequence[JudgedClaim]) -> list[tuple[str, list[str]]]:
    """For a terminal: each verdict with lines about the claim, its numbers, and the reason or command."""
    rows = []
    for each, row in zip(judged, as_table(judged, "").rows, strict=True):
        claim, verdict, paper, measured, ratio, why, source = row
        numbers = f", measured {measured}, ratio {ratio}" if measured else ""
        lines = [f"{each.recipe}: {claim}", f"paper {paper} ({source}){numbers}", why]
        rows.append((verdict, [line for line in lines if line]))
    return rows


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
    """Whether `other` is a variation of the same implementation, such as `ours-packed` of `ours`."""
    mine = group.identity["params"].get("impl")
    return mine is not None and str(other.identity["params"].get("impl", "")).startswith(f"{mine}-")


def command_of(recipe: Recipe, claim: Claim) -> str:
    """The command that measures a claim, or "" if no benchmark does."""
    for name, benchmark in recipe.benchmarks.items():
        if claim.benchmark not in ("", name):
            continue
        metrics = [value.metric for value in benchmark.parse.values]
        if claim.metric in metrics or claim.metric in benchmark.parse.metrics:
            variant = benchmark.variants[0] if benchmark.variants else recipe.default_variant
            if benchmark.gpu:
                fitting = (
                    v for v in benchmark.variants or recipe.variants if recipe.variants[v].requires.gpu != "none"
                )
                variant = next(fitting, variant)
            return f"reprokit bench {recipe.name}:{variant} {name} --repeat 10"
    return ""


def unmeasured(recipe: Recipe, claim: Claim, cases: Sequence[Group]) -> str:
    """A remark on combinations of a benchmark's matrix that the claim covers and `cases` lack; "" if none."""
    for name in dict.fromkeys(group.identity["benchmark"] for group in cases):
        if (benchmark := recipe.benchmarks.get(name)) is None:
            continue
        wanted = [
            each
            for each in benchmark.combinations()
            if has_params(each, {k: v for k, v in claim.params.items() if k in each})
        ]
        own = [group.identity["params"] for group in cases if group.identity["benchmark"] == name]
        measured = {_matrix_key({k: params[k] for k in benchmark.matrix if k in params}) for params in own}
        if missing := sum(_matrix_key(each) not in measured for each in wanted):
            return f"{missing} of {len(wanted)} combinations of the matrix of {name} were not measured"
    return ""


def _matrix_key(params: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """A key that is equal for equal values, however a program prints them."""
    return tuple(sorted((name, str(value).lower().removesuffix(".0")) for name, value in params.items()))


def other_hardware(claim: Claim, identity: Mapping[str, Any], facts: Facts) -> str:
    """Why the hardware of records with this identity is not the claim's, or "".

    A number from a CPU that the claim does not name is not comparable; a ratio may be.
    """
    gpu, cpu = identity["gpu"], identity["cpu"]
    claimed = f"claimed for {claim.hardware}"
    if gpu and claim.gpu == "none":
        return f"measured on a GPU ({gpu}), {claimed}"
    if not gpu and claim.gpu not in ("", "none"):
        return f"measured on a CPU ({cpu}), {claimed}"
    ratio = claim.baseline is not None and claim.baseline.value is None
    if not set(_words(claim.cpu)) <= set(_words(cpu)) or (claim.gpu == "none" and not claim.cpu and not ratio):
        return f"measured on {cpu or 'an unknown CPU'}, {claimed}"
    if claim.gpu in ("", "none", "any") or _gpus_fit(claim.gpu, gpu, facts):
        return ""
    return f"measured on {gpu}, {claimed}"


def _words(cpu: str) -> list[str]:
    return re.sub(r"\((?:r|tm)\)", " ", cpu.lower()).split()


def _gpus_fit(claimed: str, measured: str, facts: Facts) -> bool:
    """Whether all measured GPUs are of the claimed kind, and enough."""
    (count, kind), *others = _gpus(claimed, facts)
    counts = _gpus(measured, facts)
    return not others and {name for _, name in counts} == {kind} and sum(number for number, _ in counts) >= count


def _gpus(text: str, facts: Facts) -> list[tuple[int, str]]:
    """How many of each kind there are in a text such as `8x A100, T4`."""
    counts = []
    for part in text.split(", "):
        counted = _COUNTED.fullmatch(part)
        assert counted, "it matches any text"
        counts.append((int(counted[1] or 1), _gpu_name(counted[2], facts)))
    return counts


def _gpu_name(text: str, facts: Facts) -> str:
    try:
        gpu = parse_gpu(facts, text)
    except UsageError:
        return text.lower()
    part = _PART.search(text)
    return (gpu.name if gpu else "none") + (f" {part[0].lower()}" if part else "")
