"""The template of new recipes: `start.yaml`, valid and commented throughout."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from reprokit.errors import UsageError
from reprokit.recipe.blocks import block_names
from reprokit.recipe.fields import RecipeName


def starting_recipe(name: str) -> str:
    """The text of a new recipe called `name`. Raises UsageError if that is not a valid name."""
    try:
        TypeAdapter(RecipeName).validate_python(name)
    except ValidationError:
        raise UsageError(
            f"{name!r} is not a valid name for a recipe",
            hint="use lower-case letters and digits, with single . _ - between them, 60 characters at most; "
            "`blocks` and names that end with `.lock` are reserved",
        ) from None
    blocks = ", ".join(b for b in block_names() if b not in ("apt", "base", "python"))
    text = Path(__file__).with_name("start.yaml").read_text(encoding="utf-8")
    return text.replace("NAME\npaper", f"{name}\npaper").replace("BLOCKS", blocks)
