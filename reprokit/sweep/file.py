"""The file of a sweep, which may be a stranger's: its schema, and errors with file and line."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, FiniteFloat, StringConstraints, ValidationError

from reprokit.errors import UsageError, unread
from reprokit.recipe import fields as f
from reprokit.recipe import yaml
from reprokit.recipe.explain import explained
from reprokit.recipe.model import RecipePart
from reprokit.untrusted import files

MOST_JOBS = 10_000
_MOST = 1 << 20  # bytes of a file
_DAY_S = 86400
_Text = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Value = Annotated[_Text | bool | int | FiniteFloat, AfterValidator(f.variable)]
_Values = Annotated[list[_Value], Field(min_length=1, max_length=1000)]
_Names = Annotated[list[f.Name], Field(max_length=100)]


class SweepRun(RecipePart):
    """Benchmarks of one recipe, each run for every combination of `parameters`."""

    recipe: f.Name = Field(description="name of a recipe")
    variants: _Names = Field(default=[], description="its variants; by default the recipe's default")
    benchmarks: _Names = Field(default=[], description="its benchmarks; by default all of each variant")
    parameters: dict[Annotated[f.EnvName, Field(max_length=60)], _Values] = Field(
        default={}, max_length=20, description="values of the command's variables, in place of those of the matrix"
    )


class SweepFile(RecipePart):
    """Everything that a sweep measures."""

    runs: Annotated[list[SweepRun], Field(min_length=1, max_length=100)] = Field(description="what is measured")
    repeats: int = Field(default=1, ge=1, le=1000, description="jobs for each combination")
    warm_up: int = Field(default=0, ge=0, le=1000, description="unmeasured runs at the begin of each job")
    timeout: int | None = Field(default=None, ge=1, le=30 * _DAY_S, description="seconds for one run of a command")
    nodes: Annotated[list[f.Line], Field(max_length=100)] = Field(
        default=[], description="nodes of your configuration; without, jobs run on this machine"
    )
    seed: int = Field(default=0, ge=0, le=1 << 31, description="of the order; another seed measures again")


def load(path: Path) -> SweepFile:
    """Read a sweep's file. Raises UsageError naming file and line."""
    try:
        text = files.read(path, _MOST).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the sweep: {unread(error)}", str(path)) from None
    document = yaml.read(text, str(path))
    if not isinstance(document.data, dict):
        raise UsageError("a sweep is a mapping of fields", str(path), "see `reprokit help sweep`")
    try:
        sweep = SweepFile.model_validate(document.data)
    except ValidationError as error:
        raise explained(error, document, SweepFile, "`reprokit help sweep` lists all fields") from None
    for number, run in enumerate(sweep.runs):
        combinations = prod(len(values) for values in run.parameters.values()) * sweep.repeats
        if combinations > MOST_JOBS:
            at = document.line(("runs", number, "parameters"))
            raise too_many(combinations, f"{path}:{at}")
    return sweep


def too_many(count: int, where: str) -> UsageError:
    return UsageError(
        f"{count} jobs are more than a sweep may have, {MOST_JOBS}", where, "split it, or name fewer values"
    )
