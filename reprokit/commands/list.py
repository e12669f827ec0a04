"""`reprokit list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reprokit.commands import _options as options
from reprokit.tables import table
from reprokit.untrusted.terminal import dump, echo, paged

if TYPE_CHECKING:
    from reprokit.recipe.model import Recipe


def list(
    blocks: bool = options.flag("--blocks", "List the blocks that recipes can use instead, also your own."),
    json: options.Json = False,
) -> None:
    """List the recipes, or the blocks that they can use."""
    if blocks:
        from reprokit.commands._blocks import list_blocks

        list_blocks(json)
        return
    from reprokit.errors import UsageError
    from reprokit.recipe.find import recipe_files
    from reprokit.recipe.load import load_file

    recipes, broken = [], []
    for path in recipe_files().values():
        try:
            recipes.append((load_file(path), path))
        except UsageError as error:
            broken.append(error)
    if json:
        rows = [
            {
                "name": recipe.name,
                "variants": [*recipe.variants],
                "historic": [name for name, variant in recipe.variants.items() if variant.historic],
                "default": recipe.default_variant,
                "title": recipe.paper.title,
                "venue": recipe.paper.venue,
                "year": recipe.paper.year,
                "file": str(path),
            }
            for recipe, path in recipes
        ]
        dump(rows)
    elif recipes:
        with paged():
            _print([r for r, _ in recipes])
    if broken:
        # The other recipes are listed anyway.
        for other in broken[1:]:
            echo(f"error: {other.message} ({other.where})", err=True)
        raise broken[0]


def _print(recipes: Sequence[Recipe]) -> None:
    rows = []
    for recipe in recipes:
        variants = ", ".join(f"{n} (historic)" if v.historic else n for n, v in recipe.variants.items())
        rows.append((recipe.name, variants, recipe.paper.title, f"{recipe.paper.venue} {recipe.paper.year}"))
    table(("recipe", "variants", "paper", "venue"), rows)
