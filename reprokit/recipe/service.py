"""A service of a variant: a container beside the recipe's, such as a database."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from reprokit.recipe import fields as f
from reprokit.recipe.packages import RecipePart


class Service(RecipePart):
    """A container beside the recipe's, such as a database. Commands reach it by its name, on any of its ports."""

    image: f.ImageRef | None = Field(
        default=None, description="its image, such as postgres:16, whose digest `reprokit lock` locks"
    )
    recipe: f.RecipeRef | None = Field(default=None, description="NAME[:VARIANT] of a recipe, in place of `image`")
    command: list[str] = Field(
        default=[], description="arguments in place of the image's; with `recipe` the program and its arguments"
    )
    env: dict[f.EnvName, f.Line] = Field(default={}, description="its environment")
    ports: list[Annotated[int, Field(ge=1, le=65535)]] = Field(
        default=[], description="it is ready when these TCP ports accept connections; none is published on the host"
    )
    ready: list[str] = Field(
        default=[], description="it is ready when this program inside it, with its arguments, succeeds"
    )
    timeout: int = Field(default=60, ge=1, le=3600, description="seconds until it must be ready")

    @model_validator(mode="after")
    def _check(self) -> Service:
        if bool(self.image) == bool(self.recipe):
            raise ValueError("a service has either `image` or `recipe`")
        if self.recipe and not self.command:
            raise ValueError("a service of a recipe needs `command`, as its image starts nothing by itself")
        if not (self.ports or self.ready):
            raise ValueError("a service needs `ports` or `ready`, which show when it is ready")
        return self
