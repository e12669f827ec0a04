"""Images that reprokit made and that nothing needs any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from reprokit.engine import OWN_IMAGES, Engine
from reprokit.errors import ReprokitError
from reprokit.helper.container import NAME
from reprokit.image.entries import full_id
from reprokit.image.made import MadeEntry, above, entries, names_of, step_name
from reprokit.recipe import find
from reprokit.recipe.load import load_file

_RECIPES = "reprokit/"
SNAPSHOTS = "reprokit-snapshot"
_STALE_S = 3600


@dataclass(frozen=True)
class LeftoverImage:
    """`size` is what the removal of all leftovers frees of it, in bytes."""

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
    listed = {full_id(image["Id"]): image for image in engine.images([], steps=True)}
    parents = {one: full_id(image["ParentId"]) for one, image in listed.items() if image.get("ParentId")}
    containers = [each for each in engine.containers([]) if each["Id"] not in gone]
    names = {name.lstrip("/") for each in containers for name in each.get("Names") or ()}
    known = _Known({one: entry for one, entry in entries(engine).items() if one in listed}, listed, names)
    reasons = {one: why for one in known.made if (why := known.reason(one))}
    for one, image in listed.items():
        names_here = names_of(image)
        if one not in known.made and names_here and all(name.startswith(step_name("")) for name in names_here):
            reasons[one] = "left by an interrupted build"
    needed = {full_id(each["ImageID"]) for each in containers} | (listed.keys() - reasons.keys())
    for one in needed:
        for kept in (one, *above(one, parents)):
            reasons.pop(kept, None)
    compared = {one for one, image in listed.items() if names_of(image)} | known.made.keys()
    sizes = _sizes({one: (_layers(engine, one), int(listed[one]["Size"])) for one in compared}, reasons)
    found = [LeftoverImage(one, tuple(names_of(listed[one])), why, sizes[one]) for one, why in reasons.items()]
    return sorted(found, key=lambda image: len([*above(image.id, parents)]), reverse=True)


def remove(engine: Engine, image: LeftoverImage) -> bool:
    """Remove an image that is still as it was listed. False if something needs it by now. Raises EngineError."""
    present = engine.image(image.id)
    if present is None:  # removed with one above it
        return True
    if {*names_of(present)} != {*image.names}:
        return False
    with suppress(ReprokitError):  # without force, the engine refuses if a container or an image needs it
        for name in image.names or (image.id,):
            engine.remove_image(name)
    return engine.image(image.id) is None


def left_by_builds(engine: Engine) -> dict[tuple[str, str], Callable[[], None]]:
    """What killed builds left, by kind and name, with what removes it: containers that never started, and volumes.

    What is less than an hour old may belong to another user's build, which is about to use it.
    """
    made = {each["Names"][0].lstrip("/"): each for each in engine.containers([])}
    old = time.time() - _STALE_S
    containers = (
        name
        for name, each in made.items()
        if name.startswith(NAME) and each.get("State") == "created" and each["Created"] < old
    )
    mounted = {mount.get("Name") for each in made.values() for mount in each.get("Mounts") or ()}
    volumes = (
        name
        for name, when in engine.volumes().items()
        if name.startswith(NAME) and name not in mounted and _seconds(when) < old
    )
    return {
        **{("container", name): partial(engine.remove, name, force=True) for name in containers},
        **{("volume", name): partial(engine.remove_volume, name) for name in volumes},
    }


def _seconds(when: str) -> float:
    """A time of the engine in Unix time; now for one that is not known."""
    try:
        return datetime.fromisoformat(when.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return time.time()


class _Known:
    """What reprokit made on an engine, and why an image of that is not needed."""

    def __init__(
        self, made: Mapping[str, MadeEntry], listed: Mapping[str, dict[str, Any]], containers: Collection[str]
    ) -> None:
        self.made, self._listed, self._containers = made, listed, containers
        self._recipes: dict[tuple[str, str], bool] = {}
        last: dict[str, int] = {}
        for entry in made.values():
            if entry.build:
                last[entry.owner] = max(int(entry.build), last.get(entry.owner, 0))
        self._cached = {
            entry.build
            for one, entry in made.items()
            if entry.build
            and self._has_recipe(entry.owner, entry.recipe)
            and (int(entry.build) == last[entry.owner] or (entry.role == "image" and names_of(listed[one])))
        }

    def reason(self, one: str) -> str:
        """Why the image is unused; "" if it may be in use."""
        entry, names = self.made[one], names_of(self._listed[one])
        if not names:
            if entry.role == "image":
                return f"replaced by a newer build of {entry.owner}" if entry.owner else "replaced by a newer build"
            return "" if entry.build in self._cached else f"left by an earlier build of {entry.owner}"
        whys = [self._why(name, entry) for name in names]
        return whys[0] if all(whys) else ""

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
        """Whether the recipe's file, or one of that name where the user stands, still has the variant."""
        if (label, path) not in self._recipes:
            name, _, variant = label.partition(":")
            files = [Path(path)] if path else []
            files += [file for known, file in find.recipe_files().items() if known == name]
            self._recipes[label, path] = any(_has_variant(file, variant) for file in files)
        return self._recipes[label, path]


def _has_variant(file: Path, variant: str) -> bool:
    try:
        return file.is_file() and variant in load_file(file).variants
    except ReprokitError:  # a recipe with a mistake is still a recipe
        return True


def _layers(engine: Engine, one: str) -> tuple[str, ...]:
    return tuple(((engine.image(one) or {}).get("RootFS") or {}).get("Layers") or ())


def _sizes(images: Mapping[str, tuple[tuple[str, ...], int]], goes: Collection[str]) -> dict[str, int]:
    """The bytes that only each image of `goes` needs; `images` has layers and size by ID. Shared ones count once."""
    totals = {layers: size for layers, size in images.values()}
    kept = {layers[:n] for one, (layers, _) in images.items() if one not in goes for n in range(len(layers) + 1)}
    found = {}
    for one in sorted(goes, key=lambda one: len(images[one][0])):
        layers, size = images[one]
        below = next((layers[:n] for n in range(len(layers), 0, -1) if layers[:n] in kept and layers[:n] in totals), ())
        found[one] = max(size - totals.get(below, 0), 0)
        kept |= {layers[:n] for n in range(len(layers) + 1)}
    return found
