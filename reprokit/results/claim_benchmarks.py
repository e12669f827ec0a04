"""The benchmarks of a recipe that measure a claim. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reprokit.recipe.claim import Claim
from reprokit.recipe.model import Recipe
from reprokit.results.likeness import Group, has_params


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
    """How many combinations of a benchmark's matrix that the claim is about have no record among `cases`, or ""."""
    for name in dict.fromkeys(group.identity["benchmark"] for group in cases):
        if (benchmark := recipe.benchmarks.get(name)) is None:
            continue
        wanted = [
            each
            for each in benchmark.combinations()
            if has_params(each, {k: v for k, v in claim.params.items() if k in each})
        ]
        own = [group.identity["params"] for group in cases if group.identity["benchmark"] == name]
        measured = {_key({k: params[k] for k in benchmark.matrix if k in params}) for params in own}
        if missing := sum(_key(each) not in measured for each in wanted):
            return f"{missing} of {len(wanted)} combinations of the matrix of {name} were not measured"
    return ""


def _key(params: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Equal for equal values, however a program prints them."""
    return tuple(sorted((name, str(value).lower().removesuffix(".0")) for name, value in params.items()))
