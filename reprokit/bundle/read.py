"""Reads a bundle and compares every name, size and statement in it with every other.

Nothing in it is trusted, and nothing is written. An accepted file has the form of a bundle; `verify` checks the digests
of its blobs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reprokit.bundle.canonical_tar import Member, refuse, scan
from reprokit.bundle.model import METADATA, SIGNATURE, Metadata, small_files
from reprokit.errors import UsageError
from reprokit.host.disk import is_full
from reprokit.image.base.resolve import carried_name
from reprokit.oci.layout import manifest_of
from reprokit.oci.model import (
    DOCKER_MANIFEST,
    INDEX,
    LAYER_TYPE,
    OCI_LAYOUT,
    ZSTD_LAYER_TYPE,
    Descriptor,
    Image,
    Layer,
    blob_path,
    digest_of,
)
from reprokit.untrusted.documents import first_fault, measure, parsed
from reprokit.untrusted.limits import DOCUMENT, DOCUMENTS, IMAGES, LAYERS

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOST_LAYER = 1 << 40
# A block of zstd holds at most 128 KiB and takes at least 4 bytes.
_MOST_RATIO = (128 << 10) // 4


@dataclass(frozen=True)
class Bundle:
    """An open bundle. `bounds` is the maximum unpacked size of each layer, in bytes.

    `signed` are the contents of `index.json`, `reprokit.json` and the signature, if there is one. They are read only
    once, as the file may change.
    """

    path: Path
    descriptor: int
    members: dict[str, Member]
    metadata: Metadata
    images: tuple[Image, ...]
    bounds: dict[str, int] = field(repr=False)
    signed: dict[str, bytes] = field(repr=False)

    @property
    def where(self) -> str:
        return str(self.path)

    @property
    def layers(self) -> dict[str, Layer]:
        """Each layer once, by diff ID."""
        return {layer.diff_id: layer for image in self.images for layer in image.layers}

    def member(self, digest: str) -> Member:
        return self.members[blob_path(digest)]


@contextmanager
def opened(path: Path) -> Iterator[Bundle]:
    """Open a bundle and check its form. Raises UsageError naming the file and the fault."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read the bundle: {error.strerror}", str(path)) from None
    with file:
        try:
            yield _read(path, file.fileno())
        except OSError as error:
            if error.filename is None and error.errno is not None and not is_full(error):
                raise UsageError(f"cannot read the bundle: {error.strerror}", str(path)) from None
            raise


def _read(path: Path, descriptor: int) -> Bundle:
    where = str(path)
    members = scan(descriptor, where)
    for name in (OCI_LAYOUT, INDEX, DOCKER_MANIFEST, METADATA):
        if name not in members:
            refuse(f"{name} is missing", where)

    texts: dict[str, bytes] = {}

    def text(name: str) -> bytes:
        if name not in texts:
            texts[name] = _text(descriptor, members[name], where)
            DOCUMENTS.check(sum(map(len, texts.values())), "bytes of JSON in a bundle", where)
        return texts[name]

    try:
        measure(raw := text(METADATA), where)
        metadata = Metadata.model_validate_json(raw)
    except ValidationError as error:
        place, why = first_fault(error)
        refuse(f"{METADATA} is not valid: {place}: {why}", where)
    index = _json(text(INDEX), INDEX, where)
    images = tuple(_images(index, members, metadata, text, where))
    for name, content in small_files(images, raw):
        if name not in members or text(name) != content:
            refuse(f"{name} contradicts the rest of the bundle", where)
    bounds = _bounds(images, metadata, where)
    _refuse_strangers(images, metadata, members, where)
    signed = {name: text(name) for name in (INDEX, METADATA, SIGNATURE) if name in members}
    return Bundle(path, descriptor, members, metadata, images, bounds, signed)


def _images(
    index: Any, members: dict[str, Member], metadata: Metadata, text: Callable[[str], bytes], where: str
) -> Iterator[Image]:
    entries = index.get("manifests") if isinstance(index, dict) else None
    empty = not entries and not metadata.inputs
    if not isinstance(entries, list) or len(entries) != len(metadata.images) or empty:
        refuse(f"{INDEX} and {METADATA} name different images", where)
    IMAGES.check(len(entries), "images in a bundle", where)
    absent, total = set(metadata.absent), 0
    for entry, described in zip(entries, metadata.images, strict=True):
        manifest = _content(entry, members, text, f"the manifest of {described.name}", where)
        value = _json(manifest, f"the manifest of {described.name}", where)
        if not isinstance(value, dict):
            refuse(f"the manifest of {described.name} is not an object", where)
        config = _content(value.get("config"), members, text, f"the config of {described.name}", where)
        total += len(config)  # counted for each name, because each is parsed and hashed
        DOCUMENTS.check(total, "bytes of image configs in a bundle", where)
        named = value.get("layers")
        diff_ids = _diff_ids(config, described.name, where)
        LAYERS.check(len(diff_ids), f"layers in the image {described.name}", where)
        if not isinstance(named, list) or len(named) != len(diff_ids):
            refuse(f"{described.name}: its manifest and its config have different numbers of layers", where)
        layers = tuple(_layer(*pair, members, absent, where) for pair in zip(named, diff_ids, strict=True))
        image = Image(described.name, config, layers)
        if image.id != described.id:
            refuse(f"{described.name}: its ID in {METADATA} is {described.id}, expected {image.id}", where)
        yield image


def _content(value: Any, members: dict[str, Member], text: Callable[[str], bytes], what: str, where: str) -> bytes:
    """The small blob of a descriptor."""
    found = _descriptor(value, what, where)
    name = blob_path(found.digest)
    if name not in members:
        refuse(f"{what} is missing", where)
    content = text(name)
    if len(content) != found.size or digest_of(content) != found.digest:
        refuse(f"{what} is damaged: its digest is {digest_of(content)}, expected {found.digest}", where)
    return content


def _descriptor(value: Any, what: str, where: str) -> Descriptor:
    try:
        found = Descriptor(value["mediaType"], value["digest"], value["size"])
    except (TypeError, LookupError):
        refuse(f"{what} has no valid descriptor", where)
    if (
        not isinstance(found.media_type, str)
        or not _is_digest(found.digest)
        or type(found.size) is not int
        or found.size < 0
    ):
        refuse(f"{what} has no valid descriptor", where)
    return found


def _diff_ids(config: bytes, name: str, where: str) -> list[str]:
    value = _json(config, f"the config of {name}", where)
    root = value.get("rootfs") if isinstance(value, dict) else None
    found = root.get("diff_ids") if isinstance(root, dict) else None
    if not isinstance(found, list) or not all(_is_digest(each) for each in found):
        refuse(f"{name}: its config names no layers", where)
    return found


def _layer(named: Any, diff_id: str, members: dict[str, Member], absent: set[str], where: str) -> Layer:
    what = f"the layer {diff_id}"
    found = _descriptor(named, what, where)
    if diff_id in absent:
        if found != Descriptor(LAYER_TYPE, diff_id, found.size):
            refuse(f"{what} is marked as excluded but has a blob", where)
        return Layer(diff_id, found.size, None)
    member = members.get(blob_path(found.digest))
    if member is None:
        refuse(f"{what} is missing and not marked as excluded", where)
    if found.media_type != ZSTD_LAYER_TYPE or member.size != found.size:
        refuse(f"{what}: its blob is {member.size} bytes, expected {found.size} of {ZSTD_LAYER_TYPE}", where)
    return Layer(diff_id, 0, found)


def _bounds(images: tuple[Image, ...], metadata: Metadata, where: str) -> dict[str, int]:
    """The maximum unpacked size of each layer in the bundle, by its image's size in the metadata."""
    found: dict[str, int] = {}
    for image, described in zip(images, metadata.images, strict=True):
        packed = sum(layer.blob.size for layer in image.layers if layer.blob)
        if described.packed != packed:
            refuse(f"{image.name}: {METADATA} has {described.packed} bytes of layers, expected {packed}", where)
        left = described.size - sum(layer.size for layer in image.layers if not layer.blob)
        if not 0 <= left <= min(_MOST_LAYER, packed * _MOST_RATIO):
            refuse(f"{image.name}: layers of {packed} bytes cannot unpack to {left}, as {METADATA} claims", where)
        for layer in image.layers:
            if layer.blob:
                found[layer.diff_id] = min(left, found.get(layer.diff_id, left))
    return found


def _refuse_strangers(images: tuple[Image, ...], metadata: Metadata, members: dict[str, Member], where: str) -> None:
    """Every file must be named by something, and have the size that is stated."""
    named = {OCI_LAYOUT, INDEX, DOCKER_MANIFEST, METADATA, SIGNATURE}
    for image in images:
        named |= {blob_path(digest_of(manifest_of(image))), blob_path(image.id)}
        named |= {blob_path(layer.blob.digest) for layer in image.layers if layer.blob}
    if len({image.name for image in images}) != len(images):
        refuse("two images have the same name", where)
    blobs: dict[str, Descriptor] = {}
    for layer in (layer for image in images for layer in image.layers):
        if blobs.setdefault(layer.diff_id, layer.descriptor) != layer.descriptor:
            refuse(f"the layer {layer.diff_id} has two different descriptors", where)
    if left_over := set(metadata.absent) - set(blobs):
        refuse(f"{min(left_over)} is marked as excluded, but no image has it", where)
    for part in metadata.parts:
        named.add(part.path)
        if part.kind == "workspace" and part.path != f"workspaces/{part.name}.tar.zst":
            refuse(f"{part.path} cannot be the workspace {part.name!r}", where)
        if part.path not in members or members[part.path].size != part.size:
            refuse(f"{part.path} is missing, or has another size than {METADATA} says", where)
    inputs = metadata.inputs.blobs if metadata.inputs else {}
    for digest, size in inputs.items():
        named.add(path := blob_path(digest))
        if path not in members or members[path].size != size:
            refuse(f"the input {digest} is missing, or has another size than {METADATA} says", where)
    bases = metadata.inputs.bases if metadata.inputs else ()
    if missing := {carried_name(digest) for digest in bases} - {image.name for image in images}:
        refuse(f"the base image {min(missing)} is missing", where)
    if strange := set(members) - named:
        refuse(f"{min(strange)} is not named by anything", where)


def _text(descriptor: int, member: Member, where: str) -> bytes:
    DOCUMENT.check(member.size, f"bytes in {member.path}", where)
    content = b""
    while len(content) < member.size:
        block = os.pread(descriptor, member.size - len(content), member.offset + len(content))
        if not block:
            refuse(f"{member.path} is cut off", where)
        content += block
    return content


def _json(content: bytes, what: str, where: str) -> Any:
    try:
        return parsed(content.decode("utf-8"), where)
    except ValueError:
        refuse(f"{what} is not valid JSON", where)


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None
