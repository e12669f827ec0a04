"""Which of a recipe's benchmarks run in which variant. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reprokit.errors import UsageError
from reprokit.recipe.find import Target
from reprokit.recipe.model import Benchmark
from reprokit.recipe.spelling import nearest


def benchmarks(target: Target, wanted: Sequence[str]) -> Mapping[str, Benchmark]:
    """This variant's benchmarks, or the `wanted` ones of them. Raises UsageError where there is none."""
    every = target.recipe.benchmarks
    mine = {name: b for name, b in every.items() if not b.variants or target.variant_name in b.variants}
    for name in wanted:
        if name not in every:
            known = ", ".join(every) or "none"
            raise UsageError(
                f"{target.recipe.name} has no benchmark {name!r}{nearest(name, every)}",
                str(target.path),
                f"its benchmarks: {known}",
            )
        if name not in mine:
            raise UsageError(
                f"the benchmark {name!r} is not one of the variant {target.variant_name!r}",
                str(target.path),
                f"it belongs to {', '.join(every[name].variants)}",
            )
    if not mine:
        raise UsageError(
            f"{target.label} has no benchmarks",
            str(target.path),
            f"`reprokit bench {target.label} --extension` runs the bundled one",
        )
    return {name: b for name, b in mine.items() if not wanted or name in wanted}
