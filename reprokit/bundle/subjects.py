"""What a user wants in a bundle: recipes' images by `NAME[:VARIANT]`, and any other image of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from reprokit.bundle.collect import Wanted, described
from reprokit.bundle.model import Described, Image
from reprokit.engine import LABEL, Engine
from reprokit.errors import ReprokitError, UsageError
from reprokit.image.labels import image_name
from reprokit.recipe.find import recipe_file, recipe_files, target
from reprokit.supply.lock import file as lock_file
from reprokit.untrusted.documents import parsed

Say = Callable[[str], None]


def resolve(engine: Engine, names: Sequence[str]) -> list[Wanted]:
    """Each image once, in the order of `names`. Raises UsageError saying how to get what is not there."""
    found = {each.name: each for each in (_one(engine, name) for name in names)}
    return list(found.values())


def _one(engine: Engine, name: str) -> Wanted:
    if name.partition(":")[0] in recipe_files():
        chosen = target(name)
        if engine.image(image_name(chosen)) is None:
            raise UsageError(f"{chosen.label} has not been built", hint=f"reprokit build {chosen.label}")
        return described(engine, image_name(chosen))
    if "/" not in name and engine.image(name) is None:
        recipe_file(name.partition(":")[0])  # says which recipes there are
    return described(engine, name)


def describe(image: Image, labels: Mapping[str, str], say: Say) -> Described:
    """The image in `reprokit.json`: what its labels say, with the recipe and the lock where they are here."""

    def label(key: str) -> str:
        return labels.get(f"{LABEL}.{key}", "")

    recipe = label("recipe")
    texts = _texts(recipe, label("variant"), label("lock"), say) if recipe else ("", "")
    return Described(
        name=image.name,
        id=image.id,
        size=sum(layer.size for layer in image.layers),
        packed=sum(layer.blob.size for layer in image.layers if layer.blob),
        recipe=recipe,
        variant=label("variant"),
        inputs=label("inputs"),
        pins=_pins(label("pins")),
        min_driver=label("min-driver"),
        compute_capabilities=tuple(filter(None, label("compute-capabilities").split(","))),
        recipe_text=texts[0],
        lock_text=texts[1],
    )


def _pins(text: str) -> dict[str, str]:
    try:
        value = parsed(text or "{}")
    except ValueError:
        value = {}
    return {str(key): str(pin) for key, pin in value.items()} if isinstance(value, dict) else {}


def _texts(recipe: str, variant: str, locked: str, say: Say) -> tuple[str, str]:
    """The recipe and its lock. A lock that has changed since is left out: the image was not made from it."""
    path = recipe_files().get(recipe)
    if path is None:
        say(f"the recipe {recipe} is not here: the bundle goes without its text")
        return "", ""
    lock = lock_file.lock_path(path)
    try:
        now = lock_file.read(lock).variants.get(variant)
    except (FileNotFoundError, ReprokitError):
        return _text(path), ""
    if now is None or now.hash != locked:
        if locked:
            say(f"the lock of {recipe} has changed since {recipe}:{variant} was built: the bundle goes without it")
        return _text(path), ""
    return _text(path), _text(lock)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
