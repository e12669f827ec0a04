"""Images given to an engine as a stream, a few blocks in memory, and under no name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import replace
from tarfile import BLOCKSIZE

import zstandard

from reprokit.bundle import layout, members
from reprokit.bundle.model import (
    DOCKER_MANIFEST,
    INDEX,
    INDEX_TYPE,
    MANIFEST_TYPE,
    OCI_LAYOUT,
    Descriptor,
    Image,
    Layer,
    blob_path,
    digest_of,
)
from reprokit.bundle.partial import header
from reprokit.bundle.read import Bundle
from reprokit.bundle.target import Form
from reprokit.bundle.verify import BLOCK, Raw, unpacked
from reprokit.errors import UsageError

Count = Callable[[int], None]
# Less than a socket takes at once (208 KiB on Linux): the engine reads one piece while the next is unpacked.
_PIECE = 1 << 17
END = bytes(members.END)


def archive(
    bundle: Bundle, image: Image, carried: Collection[str], sizes: Mapping[str, int], form: Form, count: Count
) -> Generator[bytes, None, None]:
    """The image with those of its layers whose diff ids are `carried`; `END` is for the caller to send.

    `sizes` are the uncompressed ones, by diff id; `count` is told bytes of the bundle as they go. Raises UsageError
    where the bundle has changed since it was verified; without the end the engine takes nothing.
    """
    yield from _file(blob_path(image.id), image.config)
    if form.layout:
        manifest = layout.manifest_of(image)
        yield from _file(blob_path(digest_of(manifest)), manifest)
    seen: set[str] = set()
    for layer in image.layers:
        if layer.diff_id in carried and layer.diff_id not in seen:
            seen.add(layer.diff_id)
            path = _path(layer.diff_id, layer.descriptor, form)
            if form.plain:
                yield header(path, sizes[layer.diff_id])
                yield from _plain(bundle, layer.diff_id, sizes[layer.diff_id], count)
                yield _padding(sizes[layer.diff_id])
            else:
                yield header(path, layer.descriptor.size)
                yield from _packed(bundle, layer.descriptor.digest, count)
                yield _padding(layer.descriptor.size)
    if form.layout:
        entry = Descriptor(MANIFEST_TYPE, digest_of(manifest), len(manifest)).json()
        index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]}
        yield from _file(OCI_LAYOUT, _json({"imageLayoutVersion": "1.0.0"}))
        yield from _file(INDEX, _json(index))
    else:
        layers = [_path(layer.diff_id, layer.descriptor, form) for layer in image.layers]
        yield from _file(DOCKER_MANIFEST, _json([{"Config": blob_path(image.id), "Layers": layers}]))


def id_at_engine(image: Image, form: Form) -> str:
    """What the engine calls the image: containerd stores go by the manifest."""
    return digest_of(layout.manifest_of(image)) if form is Form.LAYOUT else image.id


def unpacked_image(image: Image, sizes: Mapping[str, int]) -> Image:
    """The image with its layers named by their uncompressed content; `sizes` are of those in the bundle."""
    layers = tuple(Layer(each.diff_id, sizes.get(each.diff_id, each.size), None) for each in image.layers)
    return replace(image, layers=layers)


def begun(image: Image, count: int, label: str, created: str) -> Image:
    """The image's first layers as an image of their own, which holds them at the engine until all are there.

    It has the label `label` with the whole image's id; `created` is its time as RFC 3339.
    """
    whole = json.loads(image.config)
    config = {
        **{key: whole[key] for key in ("architecture", "os", "variant") if key in whole},
        "created": created,
        "config": {"Labels": {label: image.id}},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in image.layers[:count]]},
    }
    return Image("", _json(config), image.layers[:count])


def _path(diff_id: str, blob: Descriptor, form: Form) -> str:
    return f"{diff_id.removeprefix('sha256:')}.tar" if form is Form.PLAIN else blob_path(blob.digest)


def _file(path: str, content: bytes) -> Iterator[bytes]:
    yield header(path, len(content)) + content + _padding(len(content))


def _plain(bundle: Bundle, diff_id: str, size: int, count: Count) -> Iterator[bytes]:
    raw = Raw(bundle, bundle.member(bundle.layers[diff_id].descriptor.digest), lambda block: count(len(block)))
    content, buffer, left = unpacked(raw), bytearray(_PIECE), size
    try:
        while got := content.readinto(buffer):
            left -= got
            if left < 0:
                break
            yield bytes(memoryview(buffer)[:got])
    except zstandard.ZstdError:
        left = -1
    if left:
        raise _changed(bundle)


def _packed(bundle: Bundle, digest: str, count: Count) -> Iterator[bytes]:
    member = bundle.member(digest)
    at, end = member.offset, member.offset + member.size
    while at < end:
        block = os.pread(bundle.descriptor, min(BLOCK, end - at), at)
        if not block:
            raise _changed(bundle)
        yield block
        at += len(block)
        count(len(block))


def _changed(bundle: Bundle) -> UsageError:
    return UsageError("the bundle has changed while it was read", bundle.where, "repeat the command")


def _padding(size: int) -> bytes:
    return bytes(-size % BLOCKSIZE)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
