"""The parts of a recipe that list packages and files: each an entry, or a file beside the recipe."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from reprokit.recipe import fields as f
from reprokit.untrusted.model import FrozenModel


class RecipePart(FrozenModel):
    model_config = ConfigDict(strict=True, populate_by_name=True)


class RequirementsFile(RecipePart):
    """Requirements in a file of the recipe's folder: `requirements.txt`, `pyproject.toml`, or pip's of conda's .yml."""

    file: f.BesidePath = Field(description="path below the recipe's folder")
    extras: list[f.Line] = Field(default=[], description="extras of the project in a pyproject.toml")
    groups: list[f.Line] = Field(default=[], description="dependency groups of a pyproject.toml")

    @property
    def form(self) -> Literal["lines", "project", "environment"]:
        if self.file.endswith((".yml", ".yaml")):
            return "environment"
        return "project" if self.file.endswith(".toml") else "lines"

    @model_validator(mode="after")
    def _check_form(self) -> RequirementsFile:
        if (self.extras or self.groups) and self.form != "project":
            raise ValueError("only a pyproject.toml has `extras` and `groups`")
        return self


class EnvironmentFile(RecipePart):
    """conda's `environment.yml`, in the recipe's folder."""

    file: f.BesidePath = Field(description="path below the recipe's folder")


class Sdist(RecipePart):
    """A release without a wheel. It is built inside the image, with the setuptools that `wheels` pins."""

    package: f.ExactRequirement = Field(description="NAME==VERSION")
    requires: list[f.Line] = Field(default=[], description="its dependencies at run time, such as numpy>=1.16")


class RecipeFile(RecipePart):
    """A plain file by its addresses: a release's archive, a script of an installer."""

    name: f.FileName = Field(description="its name in the lock and in the store")
    urls: list[f.HttpUrl] = Field(min_length=1, description="addresses that give the same bytes, tried in order")
    sha256: f.Sha256 | None = Field(
        default=None, description="if known; otherwise the first `reprokit lock` computes it"
    )
    path: f.ContainerPath = Field(description="absolute path in the image, of the file or (with `unpack`) the folder")
    unpack: bool = Field(default=False, description="true: unpack the archive (tar, zip) below `path`")


def _form(value: Any) -> str:
    return "(file)" if isinstance(value, dict | RecipePart) else "(text)"


WheelEntry = Annotated[
    Annotated[f.WheelRequirement, Tag("(text)")] | Annotated[RequirementsFile, Tag("(file)")],
    Discriminator(_form),
]
CondaEntry = Annotated[
    Annotated[f.CondaSpec, Tag("(text)")] | Annotated[EnvironmentFile, Tag("(file)")], Discriminator(_form)
]
