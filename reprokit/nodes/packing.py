"""The layers that nodes lack, read from the local engine and compressed once for all nodes."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from reprokit.display import ByteProgress
from reprokit.engine import Engine, ImageInfo
from reprokit.errors import UsageError
from reprokit.image.labels import kind_of_name
from reprokit.nodes.spool import Spool
from reprokit.oci.blob_folder import StoredBlob
from reprokit.oci.canonical import canonical_digest_of
from reprokit.oci.model import Image
from reprokit.oci.read import engine_image, layer_sizes, read_images

_LOOK_EVERY_S = 0.1


class PackingStopped(Exception):
    """Packing failed or was interrupted."""


def image_to_send(engine: Engine, name: str) -> ImageInfo:
    """Raises UsageError if the engine has no such image, or if its name is reserved."""
    found = engine_image(engine, name)
    if kind_of_name(found.name) == "reserved":
        raise UsageError("this name is reserved for reprokit's own images", name, "give it another with `docker tag`")
    return found


class Packing:
    """Layers of images, packed once for all nodes; `sizes` are their approximate uncompressed bytes by diff ID.

    `canonical` are the images' canonical digests by name, "" if they are not cached.

    `count` threads call `need` once each; then `pack` runs.
    """

    def __init__(self, engine: Engine, images: Sequence[ImageInfo], spool: Spool, count: int) -> None:
        self.spool, self.images = spool, tuple(images)
        self.sizes = {key: size for image in images for key, size in layer_sizes(engine, image).items()}
        self.canonical = {image.name: canonical_digest_of(engine.image(image.id)) for image in images}
        self._engine, self._waiting = engine, count
        self._needed: set[str] = set()
        self._requested = False
        self._changed = threading.Condition()
        self._ended = False
        self._packed: list[Image] | None = None

    def need(self, layers: Collection[str] | None) -> None:
        """Register the layers that a node lacks; None if it needs nothing, or has failed."""
        with self._changed:
            self._needed.update(layers or ())
            self._requested |= layers is not None
            self._waiting -= 1
            self._changed.notify_all()

    def pack(self, progress: ByteProgress) -> None:
        """Wait for all nodes, then pack the layers that they need. Raises as `read_images`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting <= 0)
        try:
            if not self._requested:
                return
            images = [self.spool.image(each.id, each.name) for each in self.images]
            if all(images) and all(map(self.spool.find, self._needed)):
                self._packed = [image for image in images if image]
                return
            without = frozenset(layer for each in self.images for layer in each.layers) - self._needed
            with self.spool.reported():
                self._packed = read_images(self._engine, self.images, self.spool, without, progress)
                for each, image in zip(self.images, self._packed, strict=True):
                    self.spool.remember(each.id, image)
        finally:
            self.end()

    def end(self) -> None:
        """End packing: waiting for a missing layer then raises PackingStopped."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def blob(self, diff_id: str) -> StoredBlob:
        """Wait for a registered layer. Raises PackingStopped."""
        while True:
            ended = self._ended
            if found := self.spool.find(diff_id):
                return found
            if ended:
                raise PackingStopped
            with self._changed:
                self._changed.wait_for(lambda: self._ended, _LOOK_EVERY_S)

    def packed_images(self) -> list[Image]:
        """Wait for all layers; the images with their configs. Raises PackingStopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended)
        if self._packed is None:
            raise PackingStopped
        return self._packed
