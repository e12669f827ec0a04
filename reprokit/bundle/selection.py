"""The images that a user names: recipes' images by `NAME[:VARIANT]`, and any other image of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reprokit.bundle.layers import settings
from reprokit.bundle.model import ImageMetadata
from reprokit.display import notify
from reprokit.engine import Engine, ImageInfo
from reprokit.errors import ReprokitError, UsageError
from reprokit.image.labels import ImageLabels, image_name
from reprokit.oci.canonical import canonical_digest
from reprokit.oci.model import Image
from reprokit.oci.read import engine_image
from reprokit.recipe.find import is_recipe, recipe_file, recipe_files, target
from reprokit.recipe.load import recipe_text
from reprokit.supply.lock import file as lock_file


def resolve(engine: Engine, names: Sequence[str]) -> list[ImageInfo]:
    """Each image once, in the order of `names`. Raises UsageError with the command that builds a missing one."""
    found = {each.name: each for each in (_one(engine, name) for name in names)}
    return list(found.values())


def _one(engine: Engine, name: str) -> ImageInfo:
    if is_recipe(name):
        chosen = target(name)
        if engine.image(image_name(chosen)) is None:
            raise UsageError(f"{chosen.label} has not been built", hint=f"reprokit build {chosen.label}")
        return engine_image(engine, image_name(chosen))
    if "/" not in name and engine.image(name) is None:
        recipe_file(name.partition(":")[0])  # its error lists the recipes
    return engine_image(engine, name)


def describe(image: Image, labels: Mapping[str, str]) -> ImageMetadata:
    """The image in `reprokit.json`: what its labels say, with the recipe and the lock if they are here."""
    found = ImageLabels.read(labels)
    recipe_text, lock_text = _texts(found.recipe, found.variant, found.lock) if found.recipe else ("", "")
    return ImageMetadata(
        name=image.name,
        id=image.id,
        canonical=canonical_digest(image.diff_ids, settings(image.config)) or None,
        size=sum(layer.size for layer in image.layers),
        packed=sum(layer.blob.size for layer in image.layers if layer.blob),
        recipe=found.recipe,
        variant=found.variant,
        inputs=found.inputs,
        pins=dict(found.needs.pins),
        min_driver=found.needs.min_driver,
        compute_capabilities=found.needs.compute_capabilities,
        recipe_text=recipe_text,
        lock_text=lock_text,
    )


def _texts(recipe: str, variant: str, locked: str) -> tuple[str, str]:
    """The recipe and its lock. A lock that has changed since the build is excluded."""
    path = recipe_files().get(recipe)
    if path is None:
        notify(f"the recipe {recipe} is not here: the bundle will not have its text")
        return "", ""
    lock = lock_file.lock_path(path)
    try:
        text = lock_file.lock_text(lock)
        now = lock_file.parse(text, str(lock), recipe).variants.get(variant)
    except (FileNotFoundError, ReprokitError):
        return recipe_text(path), ""
    if now is None or now.hash != locked:
        if locked:
            notify(f"the lock of {recipe} has changed since {recipe}:{variant} was built: the bundle will not have it")
        return recipe_text(path), ""
    return recipe_text(path), text
