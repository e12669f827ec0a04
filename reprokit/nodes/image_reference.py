"""References to recipes' images in registries, as users write them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from reprokit.errors import UsageError
from reprokit.image.base.registries import registry_of
from reprokit.recipe.find import Target, recipe_names
from reprokit.recipe.find import target as find_target
from reprokit.recipe.spelling import nearest

_SHAPE = "write REGISTRY/NAME[:VARIANT] or REGISTRY/NAME@sha256:..., for example registry.lab:5000/featgraph:cpu"
# The grammar of names: distribution's reference package.
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"(?P<repository>(?P<host>\[[0-9a-fA-F:]+\](?::\d+)?|[A-Za-z0-9.-]+(?::\d+)?)/(?:{_PART}/)*(?P<recipe>{_PART}))"
    r"(?::(?P<variant>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True)
class ImageReference:
    """`repository` is `HOST[:PORT]/[PATH/]NAME`, whose last part is the recipe; `variant` and `digest` may be empty."""

    host: str
    repository: str
    recipe: str
    variant: str = ""
    digest: str = ""

    @property
    def named(self) -> str:
        """The reference with its variant, the registry's tag, if there is one."""
        return f"{self.repository}:{self.variant}" if self.variant else self.repository


def parse(text: str) -> ImageReference:
    """`HOST[:PORT]/[PATH/]NAME[:VARIANT][@sha256:HEX]`. Raises UsageError."""
    found = _NAME.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is not an image in a registry", hint=_SHAPE)
    parts = found.groupdict(default="")
    if parts["host"] != "docker.io" and registry_of(text) != parts["host"]:
        raise UsageError(
            f"{text!r} has no registry",
            hint=f"{_SHAPE}; for Docker Hub docker.io/{parts['repository']}",
        )
    return ImageReference(**parts)


def of_recipe(text: str) -> tuple[ImageReference, Target | None]:
    """The reference with its variant, and the recipe if it is known here. Raises UsageError.

    The default variant is the recipe's. The labels of an image by digest name its variant.
    """
    reference = parse(text)
    label = f"{reference.recipe}:{reference.variant}" if reference.variant else reference.recipe
    if reference.recipe in recipe_names():
        target = find_target(label)
        return (reference if reference.digest else replace(reference, variant=target.variant_name)), target
    if not reference.variant and not reference.digest:
        raise UsageError(
            f"no recipe named {reference.recipe!r}; give the variant{nearest(label, recipe_names())}",
            text,
            f"write {text}:VARIANT",
        )
    return reference, None
