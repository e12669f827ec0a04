"""Recipes by name or by the path of their file, and `NAME[:VARIANT]` as users write it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.recipe import yaml
from reprokit.recipe.load import load_file, recipe_text
from reprokit.recipe.model import Recipe, Variant
from reprokit.recipe.spelling import nearest


@dataclass(frozen=True)
class Target:
    """One variant of one recipe, and the file it came from."""

    recipe: Recipe
    variant_name: str
    path: Path

    @property
    def variant(self) -> Variant:
        return self.recipe.variants[self.variant_name]

    @property
    def label(self) -> str:
        """`name:variant`."""
        return f"{self.recipe.name}:{self.variant_name}"

    @property
    def workspace(self) -> str:
        """Name of the folder below `workspaces/`."""
        return self.recipe.workspace or self.recipe.name


def recipe_files() -> dict[str, Path]:
    """Every recipe's file by name, sorted; the first folder of `paths.recipe_dirs()` with that name wins.

    A recipe is `NAME.yaml` in such a folder, or `NAME/NAME.yaml` with the files beside it.
    """
    found: dict[str, Path] = {}
    for folder in paths.recipe_dirs():
        alone = (place / f"{place.name}.yaml" for place in folder.glob("*/"))
        for file in [*sorted(folder.glob("*.yaml")), *(file for file in alone if file.is_file())]:
            if not file.name.endswith(".lock.yaml"):
                found.setdefault(file.stem, file)
    return dict(sorted(found.items()))


def recipe_names() -> list[str]:
    return list(recipe_files())


def default_names(every: bool) -> list[str]:
    """What verbs take if no recipe is named: those of ./recipes if there is such a folder, else or with `every` all.

    Raises UsageError if that folder has no recipe.
    """
    files, own = recipe_files(), Path.cwd() / "recipes"
    if every or not own.is_dir():
        return list(files)
    names = [name for name, file in files.items() if file.is_relative_to(own.resolve())]
    if not names:
        hint = "write one with `reprokit new NAME`; --all takes the recipes that come with reprokit"
        raise UsageError("this folder has no recipe", str(own), hint)
    return names


def load_recipe(name: str) -> Recipe:
    """The recipe called `name`, or in the file `name`. Raises UsageError if there is none or it is not valid."""
    return load_file(recipe_file(name))


def split(text: str) -> tuple[str, str]:
    """The recipe and the variant of `NAME[:VARIANT]` or `PATH[:VARIANT]`; the variant is empty if none is named."""
    path = re.fullmatch(r"(.*\.yaml)(?::([^/:]*))?", text, re.DOTALL)
    if path:
        return path[1], path[2] or ""
    name, _, variant = text.partition(":")
    return name, variant


def is_path(name: str) -> bool:
    """Whether a recipe is named by the path of its file."""
    return name.endswith(".yaml")


def plain(text: str) -> str:
    """`NAME[:VARIANT]` for `PATH[:VARIANT]`; other texts as they are."""
    name, variant = split(text)
    return f"{Path(name).stem}{variant and ':'}{variant}" if is_path(name) else text


def is_recipe(text: str) -> bool:
    """Whether `NAME[:VARIANT]` or `PATH[:VARIANT]` names a recipe, and no other thing such as an image."""
    name, _ = split(text)
    return is_path(name) or name in recipe_files()


def recipe_file(name: str) -> Path:
    """The file of the recipe called `name`, or `name` itself if it is a path. Raises UsageError if there is none."""
    if is_path(name):
        file = paths.expanded(name).absolute()
        if name.endswith(".lock.yaml"):
            raise UsageError("this is a lock, not a recipe", name, f"name {name.removesuffix('.lock.yaml')}.yaml")
        if not file.is_file():
            raise UsageError("there is no such recipe file", name, "`reprokit list` shows the recipes")
        return file
    files = recipe_files()
    if name not in files:
        known = ", ".join(files) or "none"
        raise UsageError(
            f"unknown recipe {name!r}{nearest(name, files)}",
            hint=f"recipes are {known}; `reprokit new` writes a new one",
        )
    if "_" in name:
        refuse_twin(name, files[name])
    return files[name]


def refuse_twin(name: str, path: Path) -> None:
    """Raises UsageError if `name` is a recipe's name but for `_` in place of `-`: folders in workspaces/ have `_`."""
    twin = next((n for n in recipe_files() if n != name and n.replace("-", "_") == name.replace("-", "_")), None)
    if twin:
        problem = f"the recipes {name!r} and {twin!r} share one workspace folder"
        raise UsageError(problem, str(path), "rename one of them")


def targets(text: str) -> list[Target]:
    """All variants of `NAME`, or the one of `NAME:VARIANT`. Raises UsageError."""
    name, variant = split(text)
    path = recipe_file(name)
    recipe = load_file(path)
    if not variant:
        return [Target(recipe, v, path) for v in recipe.variants]
    if variant not in recipe.variants:
        raise UsageError(
            f"{recipe.name} has no variant {variant!r}{nearest(variant, recipe.variants)}",
            str(path),
            f"variants: {', '.join(recipe.variants)}",
        )
    return [Target(recipe, variant, path)]


def current_targets(names: Sequence[str]) -> list[Target]:
    """The variants of all names; a historic one only if named as `NAME:VARIANT`. Raises UsageError."""
    return [t for name in names for t in targets(name) if not t.variant.historic or split(name)[1]]


def target(text: str) -> Target:
    """The variant of `NAME[:VARIANT]`, by default the recipe's default. Raises UsageError."""
    found = targets(text)
    return next((t for t in found if t.variant_name == t.recipe.default_variant), found[0])


def where_in(target: Target, path: yaml.Path) -> str:
    """`FILE:LINE` of `path` below the variant, or in the variant that it inherits it from."""
    try:
        document = yaml.read(recipe_text(target.path), str(target.path))
        variants = document.data["variants"]
        name = target.variant_name
        while path and path[0] not in variants[name] and variants[name].get("extends"):
            name = variants[name]["extends"]
    except (UsageError, KeyError, TypeError):  # it was changed meanwhile
        return str(target.path)
    return f"{target.path}:{document.line(('variants', name, *path))}"
