"""`reprokit new`."""

from __future__ import annotations

from pathlib import Path

import typer

from reprokit.untrusted.text import echo


def new(name: str = typer.Argument(metavar="NAME", help="Lower-case letters, digits, `.`, `_` and `-`.")) -> None:
    """Write a commented starting recipe."""
    from reprokit.errors import UsageError
    from reprokit.recipe.start import starting_recipe

    text = starting_recipe(name)
    path = Path("recipes") / f"{name}.yaml"
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"the recipe {name} exists already", str(path), "choose another name, or edit the file"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write the recipe: {error.strerror}", str(path)) from None
    echo(f"wrote {path}; next: reprokit check {name} && reprokit build {name}")
