"""`reprokit list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from reprokit.untrusted.text import console, dump, echo

if TYPE_CHECKING:
    from reprokit.recipe.model import Recipe


def list(json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List the recipes."""
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
        _print([r for r, _ in recipes])
    if broken:
        # The other recipes are listed anyway.
        for other in broken[1:]:
            echo(f"error: {other.message} ({other.where})", err=True)
        raise broken[0]


def _print(recipes: Sequence[Recipe]) -> None:
    from rich.table import Table

    table = Table("recipe", "variants", "paper", "venue", box=None, pad_edge=False, header_style="bold")
    for recipe in recipes:
        variants = ", ".join(f"{n} (historic)" if v.historic else n for n, v in recipe.variants.items())
        table.add_row(recipe.name, variants, recipe.paper.title, f"{recipe.paper.venue} {recipe.paper.year}")
    console(width=160).print(table)
