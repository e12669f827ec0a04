"""Reads a bundle and compares every name, size and statement in it with every other.

Nothing in it is trusted, and nothing is written. An accepted file has the form of a bundle; `verify` checks the digests
of its blobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from reprokit.bundle.canonical_tar import Member, refuse, scan
from reprokit.bundle.model import METADATA, SIGNATURE, Metadata, part_path, small_files
from reprokit.errors import UsageError
from reprokit.host.disk import is_full
from reprokit.image.base.resolve import carried_name
from reprokit.oci.model import (
    INDEX,
    LAYER_TYPE,
    ZSTD_LAYER_TYPE,
    Descriptor,
    Image,
    ImageConfig,
    ImageIndex,
    ImageManifest,
    Layer,
    ambiguous,
    blob_path,
)
from reprokit.untrusted.documents import first_fault, validated
from reprokit.untrusted.limits import DOCUMENT, DOCUMENTS, IMAGES, LAYERS

M = TypeVar("M", bound=BaseModel)
_MOST_LAYER = 1 << 40
# A block of zstd holds at most 128 KiB and takes at least 4 bytes.
_MOST_RATIO = (128 << 10) // 4


class Bundle:
    """An open bundle, whose form has been checked. `bounds` is the maximum unpacked size of each layer, in bytes.

    `signed` are the contents of `index.json`, `reprokit.json` and the signature, if there is one. They are read only
    once, as the file may change.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        """Raises UsageError naming the file and the fault."""
        self.path, self.descriptor, self.where = path, descriptor, str(path)
        self.members: dict[str, Member] = scan(descriptor, self.where)
        self._texts: dict[str, bytes] = {}
        self.metadata = self._document(Metadata, METADATA)
        self.images = tuple(self._read_images())
        small = dict(small_files(self.images, self._text(METADATA)))
        for name, content in small.items():
            if self._text(name) != content:
                self._refuse(f"{name} contradicts the rest of the bundle")
        self.bounds = self._bounds()
        self._refuse_strangers({SIGNATURE, *small})
        self.signed = {name: self._text(name) for name in (INDEX, METADATA, SIGNATURE) if name in self.members}
        self._texts.clear()

    @property
    def layers(self) -> dict[str, Layer]:
        """Each layer once, by diff ID."""
        return {layer.diff_id: layer for image in self.images for layer in image.layers}

    def member(self, digest: str) -> Member:
        return self.members[blob_path(digest)]

    def _refuse(self, why: str) -> NoReturn:
        refuse(why, self.where)

    def _text(self, name: str) -> bytes:
        """A small file, which is read once."""
        if name not in self.members:
            self._refuse(f"{name} is missing")
        if name not in self._texts:
            member = self.members[name]
            DOCUMENT.check(member.size, f"bytes in {name}", self.where)
            self._texts[name] = os.pread(self.descriptor, member.size, member.offset)
            if len(self._texts[name]) < member.size:
                self._refuse(f"{name} is cut off")
            DOCUMENTS.check(sum(map(len, self._texts.values())), "bytes of JSON in a bundle", self.where)
        return self._texts[name]

    def _document(self, model: type[M], name: str) -> M:
        try:
            return validated(model, self._text(name), self.where)
        except ValidationError as error:
            place, why = first_fault(error)
            self._refuse(f"{name} is not valid: {place}: {why}")

    def _read_images(self) -> Iterator[Image]:
        """The images in the index, manifests and configs. Their digests are checked later."""
        absent, total = set(self.metadata.absent), 0
        entries = self._document(ImageIndex, INDEX).manifests
        if len(entries) != len(self.metadata.images) or not (entries or self.metadata.inputs):
            self._refuse(f"{INDEX} and {METADATA} name different images")
        IMAGES.check(len(entries), "images in a bundle", self.where)
        for entry, described in zip(entries, self.metadata.images, strict=True):
            manifest = self._document(ImageManifest, blob_path(entry.digest))
            config = self._text(name := blob_path(manifest.config.digest))
            total += len(config)  # counted for each name, because each is parsed and hashed
            DOCUMENTS.check(total, "bytes of image configs in a bundle", self.where)
            diff_ids = self._document(ImageConfig, name).rootfs.diff_ids
            if key := ambiguous(config):
                self._refuse(f"{described.name}: readers understand the key {key!r} of its config differently")
            LAYERS.check(len(diff_ids), f"layers in the image {described.name}", self.where)
            if len(manifest.layers) != len(diff_ids):
                self._refuse(f"{described.name}: its manifest and its config have different numbers of layers")
            pairs = zip(manifest.layers, diff_ids, strict=True)
            layers = tuple(self._layer(blob, diff_id, diff_id in absent) for blob, diff_id in pairs)
            image = Image(described.name, config, layers)
            if image.id != described.id:
                self._refuse(f"{described.name}: its ID in {METADATA} is {described.id}, expected {image.id}")
            yield image

    def _layer(self, found: Descriptor, diff_id: str, absent: bool) -> Layer:
        if absent:
            if found != Descriptor(LAYER_TYPE, diff_id, found.size):
                self._refuse(f"the layer {diff_id} is marked as excluded but has a blob")
            return Layer(diff_id, found.size, None)
        if found.media_type != ZSTD_LAYER_TYPE:
            self._refuse(f"the layer {diff_id} is {found.media_type}, expected {ZSTD_LAYER_TYPE}")
        return Layer(diff_id, 0, found)

    def _bounds(self) -> dict[str, int]:
        """The maximum unpacked size of each layer in the bundle, by its image's size in the metadata."""
        found: dict[str, int] = {}
        for image, described in zip(self.images, self.metadata.images, strict=True):
            packed = sum(layer.blob.size for layer in image.layers if layer.blob)
            if described.packed != packed:
                self._refuse(f"{image.name}: {METADATA} has {described.packed} bytes of layers, expected {packed}")
            left = described.size - sum(layer.size for layer in image.layers if not layer.blob)
            if not 0 <= left <= min(_MOST_LAYER, packed * _MOST_RATIO):
                self._refuse(f"{image.name}: layers of {packed} bytes cannot unpack to {left}, as {METADATA} claims")
            for layer in image.layers:
                if layer.blob:
                    found[layer.diff_id] = min(left, found.get(layer.diff_id, left))
        return found

    def _refuse_strangers(self, small: set[str]) -> None:
        """Every file must be named by something, and have the size that is stated; `small` ones have been compared."""
        layers = [layer for image in self.images for layer in image.layers]
        if len({image.name for image in self.images}) != len(self.images):
            self._refuse("two images have the same name")
        blobs: dict[str, Descriptor] = {}
        for layer in layers:
            if blobs.setdefault(layer.diff_id, layer.descriptor) != layer.descriptor:
                self._refuse(f"the layer {layer.diff_id} has two different descriptors")
        if left_over := set(self.metadata.absent) - set(blobs):
            self._refuse(f"{min(left_over)} is marked as excluded, but no image has it")
        for part in self.metadata.parts:
            if part.path != part_path(part.kind, part.name):
                self._refuse(f"{part.path} cannot be the {part.kind} {part.name!r}")
        inputs = self.metadata.inputs
        sizes = [(blob_path(layer.blob.digest), layer.blob.size) for layer in layers if layer.blob]
        sizes += [(part.path, part.size) for part in self.metadata.parts]
        sizes += [(blob_path(digest), size) for digest, size in (inputs.blobs if inputs else {}).items()]
        for path, size in sizes:
            if path not in self.members or self.members[path].size != size:
                self._refuse(f"{path} is missing, or has another size than the bundle says")
        bases = inputs.bases if inputs else ()
        if missing := {carried_name(digest) for digest in bases} - {image.name for image in self.images}:
            self._refuse(f"the base image {min(missing)} is missing")
        texts = [image.recipe for image in self.metadata.images if image.recipe_text]
        texts += [text.name for text in inputs.recipes] if inputs else []
        beside = [(file.recipe, file.path) for file in self.metadata.beside]
        if len(beside) > len(set(beside)) or {recipe for recipe, _ in beside} - {*texts}:
            self._refuse("a file beside a recipe occurs twice, or belongs to no recipe of the bundle")
        if strange := set(self.members) - small - {path for path, _ in sizes}:
            self._refuse(f"{min(strange)} is not named by anything")


@contextmanager
def opened(path: Path) -> Iterator[Bundle]:
    """Open a bundle and check its form. Raises UsageError naming the file and the fault."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read the bundle: {error.strerror}", str(path)) from None
    with file:
        try:
            yield Bundle(path, file.fileno())
        except OSError as error:
            if error.filename is None and error.errno is not None and not is_full(error):
                raise UsageError(f"cannot read the bundle: {error.strerror}", str(path)) from None
            raise
