"""`reprokit schema`."""

from __future__ import annotations

import json

import typer


def schema() -> None:
    """Print the JSON Schema of recipes, for editors."""
    from reprokit.recipe.schema import schema as of_recipes

    typer.echo(json.dumps(of_recipes(), indent=2))
