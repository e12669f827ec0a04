"""The images that reprokit made on engines, by image ID: `reprokit clean` may remove only these.

Labels and names do not count: anyone can give them to an image.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from reprokit import paths
from reprokit.engine import OWN_IMAGES, Engine
from reprokit.errors import ReprokitError, SourceError
from reprokit.image.entries import EntryList, engine_name, now
from reprokit.recipe.find import Target
from reprokit.supply.store import key_of

# Committed steps, which have names so that `docker image prune` leaves them.
_STEPS = f"{OWN_IMAGES}/step"
# Messages of engines if a registry has no such image.
_ABSENT = re.compile(r"(?i)not found|manifest unknown|name unknown|does not exist")
Role = Literal["image", "step", "failed", "base", "stage", "snapshot"]


@dataclass(frozen=True)
class MadeEntry:
    """`owner` is the `recipe:variant` or the container that it was made for, `recipe` that recipe's file.

    Steps of one build have the same `build`; a step that later builds use has the last one's. `key` hashes everything
    that a step's result depends on. `origin` is the repository that it, or a step below it, came from.
    """

    id: str
    role: Role
    owner: str
    engine: str
    time: str
    recipe: str = ""
    build: str = ""
    key: str = ""
    origin: str = ""


_LIST = EntryList("made.json", MadeEntry, "images that reprokit made")


def entries(engine: Engine) -> dict[str, MadeEntry]:
    """The images that reprokit made on this engine, by ID. Raises EngineError if they cannot be read."""
    name = engine_name(engine)
    return {entry.id: entry for entry in _LIST.read().values() if entry.engine == name}


def record(engine: Engine, image_id: str, role: Role, owner: str) -> None:
    """Record one image that was just made. Raises EngineError."""
    with _LIST.changing(engine) as recorded:
        recorded[image_id] = MadeEntry(image_id, role, owner, engine_name(engine), now())


def step_name(key: str) -> str:
    """The name of a step's image. It names this installation, so that `clean` finds images that were never recorded."""
    return f"{_STEPS}:{key_of([str(paths.state()), os.getuid()])[:12]}-{key[:32]}"


def _shared(repository: str, key: str) -> str:
    """The name of a step in a registry."""
    return f"{repository}:{key}"


class Steps:
    """The steps that builds committed, by their keys: of this build, and those of earlier ones that it uses.

    Only recorded images count, as anyone can name an image. Steps of the repository `cache_from`, and steps built on
    them, are used only by builds that name it.
    """

    def __init__(
        self, engine: Engine, target: Target, apart: bool = False, cache_from: str = "", cache_to: str = ""
    ) -> None:
        """With `apart` no other build finds the steps of this one."""
        self._engine, self._target, self._build = engine, target, f"{time.time_ns()}"
        self._apart, self._from, self._to = self._build if apart else "", cache_from, cache_to
        self._images: dict[str, list[str]] = {}
        self._foreign: set[str] = set()
        for entry in entries(engine).values():
            if entry.key and entry.origin in ("", cache_from):
                self._images.setdefault(entry.key, []).append(entry.id)
                self._foreign |= {entry.id} if entry.origin else set()
        self._used: dict[str, str] = {}
        self._new: list[str] = []

    @property
    def origin(self) -> str:
        """The repository that a step of this build came from, "" for none."""
        return self._from if self._foreign & self._used.keys() else ""

    def find(self, key: str) -> str:
        """The ID of the image of a step, "" if there is none. Raises SourceError."""
        for image in reversed(self._images.get(key + self._apart, ())):
            if self._engine.image(image):
                self._used[image] = key
                return image
        return self._pulled(key) if self._from and not self._apart else ""

    def _pulled(self, key: str) -> str:
        reference = _shared(self._from, key)
        try:
            self._engine.registry_digest(reference)
        except SourceError as error:
            if _ABSENT.search(error.message):
                return ""
            raise
        for _ in self._engine.pull(reference):
            pass
        image = self._engine.image_id(reference)
        self._foreign.add(image)
        self._used[image] = key
        self._engine.tag(image, *self.name(key).rsplit(":", 1))
        self._engine.remove_image(reference)
        self.keep(key, image)
        return image

    def share(self) -> None:
        """Push the steps that this build used to the requested repository. Raises SourceError."""
        for image, key in self._used.items() if self._to else ():
            reference = _shared(self._to, key)
            self._engine.tag(image, *reference.rsplit(":", 1))
            try:
                for _ in self._engine.push(*reference.rsplit(":", 1)):
                    pass
            finally:
                with suppress(ReprokitError):
                    self._engine.remove_image(reference)

    def name(self, key: str) -> str:
        """The name for the image of a step that is about to be committed.

        An unrecorded image of a killed build with this name is removed: without the name, nothing would find it.
        """
        name = step_name(key_of(key + self._apart + self.origin))
        recorded = {made for images in self._images.values() for made in images}
        if (image := self._engine.image_id(name)) and image not in recorded:
            with suppress(ReprokitError):
                self._engine.remove_image(name)
        return name

    def keep(self, key: str, image: str) -> None:
        """Record a step's image, which was just committed. Raises EngineError."""
        self._images.setdefault(key + self._apart, []).append(image)
        if self.origin:
            self._foreign.add(image)
        self._used[image] = key
        self._new.append(image)
        with _LIST.changing(self._engine) as recorded:
            recorded[image] = self._entry(image, "step", key + self._apart)

    def announce(self, image_id: str) -> None:
        """Record the image that is about to be loaded. Raises EngineError."""
        with _LIST.changing(self._engine) as recorded:
            recorded[image_id] = self._entry(image_id, "image", "")

    def finish(self, image_id: str = "") -> None:
        """Record the steps that this build used, and its image. Raises EngineError."""
        with _LIST.changing(self._engine) as recorded:
            for step in self._used.keys() & recorded.keys():
                recorded[step] = replace(self._entry(step, "step", recorded[step].key), role=recorded[step].role)
            if image_id:
                recorded[image_id] = self._entry(image_id, "image", "")

    def drop(self) -> None:
        """Remove the steps that this build committed, so that no later build uses them."""
        for image in reversed(self._new):
            with suppress(ReprokitError):
                self._engine.remove_image(image, force=True)

    def _entry(self, image: str, role: Role, key: str) -> MadeEntry:
        path, whose = str(self._target.path.absolute()), engine_name(self._engine)
        origin = self._from if image in self._foreign else ""
        return MadeEntry(image, role, self._target.label, whose, now(), path, self._build, key, origin)


def drop_replaced(engine: Engine) -> None:
    """Remove images of recipes that lost their name to a newer build, and images that only they need."""
    made = {image_id for image_id, entry in entries(engine).items() if entry.role == "image"}
    for image in engine.images([]):
        if image.id in made and not image.names:
            with suppress(ReprokitError):  # a container or another image needs it
                engine.remove_image(image.id)
