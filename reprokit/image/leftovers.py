"""Images that reprokit made and that nothing needs any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reprokit.engine import OWN_IMAGES, Engine, ImageInfo
from reprokit.errors import ReprokitError
from reprokit.helper.container import NAME
from reprokit.image.made import MadeEntry, entries, step_name
from reprokit.recipe import find
from reprokit.recipe.load import load_file

_RECIPES = "reprokit/"
SNAPSHOTS = "reprokit-snapshot"
_STALE_S = 3600


@dataclass(frozen=True)
class LeftoverImage:
    """`size` are the bytes of it that the removal of all leftovers frees."""

    id: str
    names: tuple[str, ...]
    why: str
    size: int

    @property
    def shown(self) -> str:
        return " ".join(self.names) or self.id.removeprefix("sha256:")[:12]


def leftovers(engine: Engine, gone: Collection[str] = ()) -> list[LeftoverImage]:
    """The images to remove, each before those that it was built on. Containers with IDs in `gone` need no image.

    An image stays if it has a name of the user's, if a container or an image that stays needs it, or if it is the
    cache of a recipe's present image or last build. Raises EngineError.
    """
    images = {image.id: image for image in engine.images([], steps=True)}
    containers = [container for container in engine.containers([]) if container.id not in gone]
    made = {image_id: entry for image_id, entry in entries(engine).items() if image_id in images}
    use = _Use(made, images, {container.name for container in containers})
    reasons = {image_id: why for image_id in made if (why := use.reason(image_id))}
    for image_id, image in images.items():
        if image_id not in made and image.names and all(name.startswith(step_name("")) for name in image.names):
            reasons[image_id] = "left by an interrupted build"
    needed = {container.image for container in containers} | (images.keys() - reasons.keys())
    for image_id in needed:
        for kept in _chain(images, image_id):
            reasons.pop(kept, None)
    compared = {image_id for image_id, image in images.items() if image.names} | made.keys()
    sizes = _sizes({image_id: (engine.layers(image_id), images[image_id].size) for image_id in compared}, reasons)
    unused = [
        LeftoverImage(image_id, images[image_id].names, why, sizes[image_id]) for image_id, why in reasons.items()
    ]
    return sorted(unused, key=lambda image: len(_chain(images, image.id)), reverse=True)


def _chain(images: Mapping[str, ImageInfo], image_id: str) -> list[str]:
    """An image and those that it was built on, nearest first."""
    chain = [image_id]
    while image_id in images and (image_id := images[image_id].parent):
        chain.append(image_id)
    return chain


def remove(engine: Engine, image: LeftoverImage) -> bool:
    """Remove an image that is still as it was listed. False if something needs it by now. Raises EngineError."""
    present = engine.image(image.id)
    if present is None:  # removed with an image built on it
        return True
    if {*present.names} != {*image.names}:
        return False
    with suppress(ReprokitError):  # without force, the engine refuses if a container or an image needs it
        for name in image.names or (image.id,):
            engine.remove_image(name)
    return engine.image(image.id) is None


def left_by_builds(engine: Engine) -> dict[tuple[str, str], Callable[[], None]]:
    """Leftovers of killed builds by kind and name, each with its removal: containers that never started, and volumes.

    Those less than an hour old may belong to a running build of another user.
    """
    containers, old = engine.containers([]), time.time() - _STALE_S
    mounted = {mount.name for container in containers for mount in container.mounts}
    removals: dict[tuple[str, str], Callable[[], None]] = {}
    for container in containers:
        if container.name.startswith(NAME) and container.state == "created" and container.created < old:
            removals["container", container.name] = partial(engine.remove, container.name, force=True)
    for volume in engine.volumes():
        if volume.name.startswith(NAME) and volume.name not in mounted and volume.created < old:
            removals["volume", volume.name] = partial(engine.remove_volume, volume.name)
    return removals


class _Use:
    """The reasons why images that reprokit made are not needed."""

    def __init__(
        self, made: Mapping[str, MadeEntry], images: Mapping[str, ImageInfo], containers: Collection[str]
    ) -> None:
        self._made, self._images, self._containers = made, images, containers
        self._recipes: dict[tuple[str, str], bool] = {}
        last: dict[str, int] = {}
        for entry in made.values():
            if entry.build:
                last[entry.owner] = max(int(entry.build), last.get(entry.owner, 0))
        self._cached = {
            entry.build
            for image_id, entry in made.items()
            if entry.build
            and self._has_recipe(entry.owner, entry.recipe)
            and (int(entry.build) == last[entry.owner] or (entry.role == "image" and images[image_id].names))
        }

    def reason(self, image_id: str) -> str:
        """Why the image is unused; "" if it may be in use."""
        entry, names = self._made[image_id], self._images[image_id].names
        if not names:
            if entry.role == "image":
                return f"replaced by a newer build of {entry.owner}" if entry.owner else "replaced by a newer build"
            return "" if entry.build in self._cached else f"left by an earlier build of {entry.owner}"
        reasons = [self._why(name, entry) for name in names]
        return reasons[0] if all(reasons) else ""

    def _why(self, name: str, entry: MadeEntry) -> str:
        repository, _, tag = name.rpartition(":")
        if repository == SNAPSHOTS:
            return "" if tag.removesuffix(".next") in self._containers else "files of a container that is gone"
        if name.startswith(step_name("")):
            return "" if entry.build in self._cached else f"left by an earlier build of {entry.owner}"
        if repository == f"{OWN_IMAGES}/stage":
            return "left by an interrupted build of a base"
        if repository == f"{OWN_IMAGES}/base":
            return "a base that no image uses; the next build makes it again"
        label = name.removeprefix(_RECIPES)
        if not name.startswith(_RECIPES) or "/" in label:
            return ""
        if label.endswith("--failed"):
            return "what a failed step left (--keep-failed)"
        return "" if self._has_recipe(label, entry.recipe) else f"no recipe has {label}"

    def _has_recipe(self, label: str, path: str) -> bool:
        """Whether the recipe's file, or another recipe of that name, still has the variant."""
        if (label, path) not in self._recipes:
            name, _, variant = label.partition(":")
            files = [Path(path)] if path else []
            files += [file for recipe, file in find.recipe_files().items() if recipe == name]
            self._recipes[label, path] = any(_has_variant(file, variant) for file in files)
        return self._recipes[label, path]


def _has_variant(file: Path, variant: str) -> bool:
    try:
        return file.is_file() and variant in load_file(file).variants
    except ReprokitError:  # a recipe with a mistake is still a recipe
        return True


def _sizes(images: Mapping[str, tuple[tuple[str, ...], int]], removed: Collection[str]) -> dict[str, int]:
    """The bytes that only each image of `removed` needs; `images` has layers and size by ID. Shared ones count once."""
    totals = {layers: size for layers, size in images.values()}
    staying = [layers for image_id, (layers, _) in images.items() if image_id not in removed]
    kept = {layers[:n] for layers in staying for n in range(len(layers) + 1)}
    sizes = {}
    for image_id in sorted(removed, key=lambda image_id: len(images[image_id][0])):
        layers, size = images[image_id]
        below = next((layers[:n] for n in range(len(layers), 0, -1) if layers[:n] in kept and layers[:n] in totals), ())
        sizes[image_id] = max(size - totals.get(below, 0), 0)
        kept |= {layers[:n] for n in range(len(layers) + 1)}
    return sizes
