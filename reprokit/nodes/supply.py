"""The layers that nodes lack, taken out of the local engine once for all of them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reprokit.bundle.collect import Watch, collect
from reprokit.bundle.model import Image
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.image.labels import kind_of_name
from reprokit.nodes.spool import Spool, Spooled

_LOOK_EVERY_S = 0.5


class Stopped(Exception):
    """The layers will not come: packing failed, or was interrupted."""


@dataclass(frozen=True)
class Local:
    """An image as the local engine knows it: its name, id, and the diff ids of its layers.

    `sizes` are about the layers' uncompressed bytes, empty where the engine's history does not tell them.
    """

    name: str
    id: str
    layers: tuple[str, ...]
    sizes: tuple[int, ...] = ()


def local_image(engine: Engine, name: str) -> Local:
    """Raises UsageError where the engine has none of this name, or the image has none that it can arrive under."""
    found = engine.image(name)
    if found is None:
        raise UsageError("the engine has no image of this name", name, "`reprokit build` makes a recipe's image")
    tags = found.get("RepoTags") or []
    asked = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
    if not tags:
        raise UsageError("the image has no name to arrive under", name, "give it one with `docker tag`")
    if kind_of_name(asked if asked in tags else tags[0]) == "reserved":
        raise UsageError("reprokit keeps this name for what it makes itself", name, "give it another with `docker tag`")
    layers = tuple((found.get("RootFS") or {}).get("Layers") or ())
    sizes = tuple(step["Size"] for step in reversed(engine.history(name)) if step.get("Size"))
    known = len(sizes) == len(layers)  # else a layer is empty, and which one is not said
    return Local(asked if asked in tags else tags[0], found["Id"], layers, sizes if known else ())


class Supply:
    """Layers of `images` as they are packed. `askers` threads call `need` or `leave` once each; then `pack` begins."""

    def __init__(self, engine: Engine, images: Sequence[Local], spool: Spool, askers: int) -> None:
        self.spool, self.wanted = spool, tuple(images)
        self._engine, self._waiting = engine, askers
        self._needed: set[str] = set()
        self._askers = 0
        self._changed = threading.Condition()
        self._ended = False
        self._images: list[Image] | None = None

    def need(self, layers: Collection[str]) -> None:
        """Say which layers a node lacks."""
        with self._changed:
            self._needed.update(layers)
            self._askers += 1
            self._waiting -= 1
            self._changed.notify_all()

    def leave(self) -> None:
        """Say that a node needs nothing, or is out of it."""
        with self._changed:
            self._waiting -= 1
            self._changed.notify_all()

    def pack(self, watch: Watch) -> None:
        """Wait for all nodes, then pack what they need. Raises what `collect` does."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting <= 0)
        try:
            if not self._askers:
                return
            images = [self.spool.image(each.id, each.name) for each in self.wanted]
            if all(images) and all(map(self.spool.find, self._needed)):
                self._images = [image for image in images if image]
                return
            without = {layer for each in self.wanted for layer in each.layers} - self._needed
            self._images = collect(self._engine, [each.name for each in self.wanted], self.spool, without, watch)
            for each, image in zip(self.wanted, self._images, strict=True):
                self.spool.remember(each.id, image)
        finally:
            self.end()

    def end(self) -> None:
        """Nothing more comes: whoever waits for a layer that is not there meets `Stopped`."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self.spool.notify()

    def blob(self, diff_id: str) -> Spooled:
        """A layer that was needed, once it is packed. Raises Stopped."""
        while True:
            ended = self._ended
            if found := self.spool.wait(diff_id, 0 if ended else _LOOK_EVERY_S):
                return found
            if ended:
                raise Stopped

    def images(self) -> list[Image]:
        """The images with their configs, once everything is packed. Raises Stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended)
        if self._images is None:
            raise Stopped
        return self._images
