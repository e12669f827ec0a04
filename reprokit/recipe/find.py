"""Recipes by name, and `NAME[:VARIANT]` as users write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.recipe import yaml
from reprokit.recipe.load import load_file
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
    """Every recipe's file by name, sorted; the first folder of `paths.recipe_dirs()` with that name wins."""
    found: dict[str, Path] = {}
    for folder in paths.recipe_dirs():
        for file in sorted(folder.glob("*.yaml")):
            if not file.name.endswith(".lock.yaml"):
                found.setdefault(file.stem, file)
    return dict(sorted(found.items()))


def recipe_names() -> list[str]:
    return list(recipe_files())


def load_recipe(name: str) -> Recipe:
    """The recipe called `name`. Raises UsageError if there is none or it is not valid."""
    return load_file(recipe_file(name))


def recipe_file(name: str) -> Path:
    """The file of the recipe called `name`. Raises UsageError if there is none."""
    files = recipe_files()
    if name not in files:
        known = ", ".join(files) or "none"
        raise UsageError(
            f"unknown recipe {name!r}{nearest(name, files)}",
            hint=f"recipes are {known}; `reprokit new` writes a new one",
        )
    twin = next((n for n in files if "_" in name and n != name and n.replace("-", "_") == name.replace("-", "_")), None)
    if twin:
        raise UsageError(
            f"the recipes {name!r} and {twin!r} share one workspace folder", str(files[name]), "rename one of them"
        )
    return files[name]


def targets(text: str) -> list[Target]:
    """All variants of `NAME`, or the one of `NAME:VARIANT`. Raises UsageError."""
    name, _, variant = text.partition(":")
    path = recipe_file(name)
    recipe = load_file(path)
    if not variant:
        return [Target(recipe, v, path) for v in recipe.variants]
    if variant not in recipe.variants:
        raise UsageError(
            f"{name} has no variant {variant!r}{nearest(variant, recipe.variants)}",
            str(path),
            f"variants: {', '.join(recipe.variants)}",
        )
    return [Target(recipe, variant, path)]


def current_targets(names: Sequence[str]) -> list[Target]:
    """The variants of all names; a historic one only if named as `NAME:VARIANT`. Raises UsageError."""
    return [t for name in names for t in targets(name) if not t.variant.historic or t.label == name]


def target(text: str) -> Target:
    """The variant of `NAME[:VARIANT]`, by default the recipe's default. Raises UsageError."""
    found = targets(text)
    return next((t for t in found if t.variant_name == t.recipe.default_variant), found[0])


def where_in(target: Target, path: yaml.Path) -> str:
    """`FILE:LINE` of `path` below the variant, or in the variant that it inherits it from."""
    try:
        document = yaml.read(target.path.read_text(encoding="utf-8"), str(target.path))
        variants = document.data["variants"]
        name = target.variant_name
        while path and path[0] not in variants[name] and variants[name].get("extends"):
            name = variants[name]["extends"]
    except (OSError, KeyError, TypeError):
        return str(target.path)
    return f"{target.path}:{document.line(('variants', name, *path))}"
