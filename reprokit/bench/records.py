"""The files of records below the current folder, and the parts of them that a user names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from reprokit.bench import printed
from reprokit.errors import UsageError
from reprokit.recipe.find import plain, recipe_names
from reprokit.recipe.spelling import nearest
from reprokit.results import lines
from reprokit.results.likeness import Group, groups
from reprokit.results.record import Record

_T = TypeVar("_T", Group, Record)
_MEASURE = "`reprokit bench NAME` measures some"


def results_file(name: str) -> Path:
    recipe = plain(name).partition(":")[0]
    if not recipe or "/" in recipe or recipe.startswith("."):
        raise UsageError(f"{recipe!r} is not the name of a recipe")
    return Path(lines.FOLDER) / f"{recipe}.jsonl"


def files_of(name: str | None) -> list[Path]:
    """The file of a recipe's records, or all. Raises UsageError if there is none."""
    files = {file.stem: file for file in sorted(Path(lines.FOLDER).glob("*.jsonl"))}
    recipe = results_file(name).stem if name else ""
    if not files:
        raise UsageError("no results yet", lines.FOLDER, _MEASURE)
    if recipe and recipe not in files:
        raise UsageError(
            f"no results of {recipe}{nearest(recipe, files)}", lines.FOLDER, f"there are {', '.join(files)}"
        )
    return [files[recipe]] if recipe else list(files.values())


def groups_here(recipe: str) -> list[Group]:
    """The groups of a recipe's records; none without a file of records."""
    file = results_file(recipe)
    return groups(lines.read(file)) if file.exists() else []


def groups_of(name: str | None) -> list[Group]:
    return some(of([group for file in files_of(name) for group in groups(lines.read(file))], name), name)


def recipes_with_results() -> list[str]:
    """The recipes with a file of records below the current folder. Raises UsageError if none has."""
    names = [name for name in recipe_names() if results_file(name).exists()]
    if not names:
        raise UsageError("no results yet", hint="name a recipe, or measure one with `reprokit bench NAME`")
    return names


def of(measured: Sequence[_T], name: str | None, benchmarks: Sequence[str] = ()) -> list[_T]:
    """The groups or records of a recipe or variant, and of these benchmarks."""
    if not name and not benchmarks:
        return list(measured)
    recipe, _, variant = plain(name or "").partition(":")
    wanted = {"recipe": [recipe], "variant": [variant], "benchmark": benchmarks or [""]}
    facts = [vars(entry).get("identity", vars(entry)) for entry in measured]
    return [
        entry
        for entry, fact in zip(measured, facts, strict=True)
        if all("" in values or fact[field] in values for field, values in wanted.items())
    ]


def some(measured: list[_T], *names: str | None) -> list[_T]:
    """Return `measured`. Raises UsageError if it is empty."""
    if not measured:
        about = " ".join(filter(None, names))
        if not about:
            raise UsageError("no results yet", hint=_MEASURE)
        raise UsageError(f"no record of {about}", hint="`reprokit results list` shows what there is")
    return measured


def records_of(name: str | None, file: Path | None) -> list[Record]:
    if file:
        return of(printed.read(file, plain(name or "").partition(":")[0] or file.stem), name)
    return of([record for path in files_of(name) for record in lines.read(path)], name)
