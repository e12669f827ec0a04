"""The commands that measure again what records have. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from reprokit.recipe.model import Recipe
from reprokit.recipe.yaml import scalar
from reprokit.results.record import Record


def commands(recipe: Recipe, records: Sequence[Record]) -> list[str]:
    """The commands that repeat the rows, from the name of the recipe alone."""
    ran = dict.fromkeys(_bench(recipe, record) for record in records if record.variant in recipe.variants)
    variants = sorted({record.variant for record in records if record.variant in recipe.variants})
    builds = [f"reprokit build {recipe.name}:{variant}" for variant in variants]
    return [
        *builds,
        *filter(None, ran),
        f"reprokit results claims {recipe.name}",
        f"reprokit report {recipe.name} -o report",
    ]


def _bench(recipe: Recipe, record: Record) -> str:
    """The command that repeats a row, "" for a benchmark that the recipe does not have."""
    extension = re.fullmatch(r"extension\.([a-z0-9][a-z0-9_.-]*)", record.benchmark)
    if not extension and record.benchmark not in recipe.benchmarks:
        return ""
    matrix = {} if extension else recipe.benchmarks[record.benchmark].matrix
    words = [*(["--extension"] if extension else []), "--repeat", str(len(record.repeats) or 1)]
    words += ["--warm-up", str(record.warm_up)] if record.warm_up else []
    for name, value in record.variables.items():
        if scalar(value) not in map(scalar, matrix.get(name, [])):
            words += ["--param", f"{name}={scalar(value)}"]
    # Places of a cluster have no name that `--on` takes.
    words += ["--on", record.node] if record.node and not re.match("(ray|slurm)-", record.node) else []
    name = extension[1] if extension else record.benchmark
    return shlex.join(["reprokit", "bench", f"{recipe.name}:{record.variant}", name, *words])
