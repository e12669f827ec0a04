"""`reprokit schema`."""

from __future__ import annotations

from reprokit.untrusted.text import dump


def schema() -> None:
    """Print the JSON Schema of recipes, for editors."""
    from reprokit.recipe.schema import schema as of_recipes

    dump(of_recipes())
