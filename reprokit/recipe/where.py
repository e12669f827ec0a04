"""Line numbers for errors that are found after a recipe was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprokit.recipe import yaml

if TYPE_CHECKING:
    from reprokit.recipe.find import Target


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
