"""Images read from an engine in one pass; every requested layer becomes a compressed blob in a sink."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from reprokit.display import ByteProgress
from reprokit.engine import Engine, ImageInfo
from reprokit.errors import EngineError, UsageError
from reprokit.oci.canonical import PassingLayers
from reprokit.oci.compress import Hashed, Write, compress
from reprokit.oci.docker_archive import ArchivedImage, ArchivedLayer, ArchiveReader, LayerPaths
from reprokit.oci.model import Descriptor, Image, Layer

Compress = Callable[[Iterator[bytes], Write], Layer]
# The steps of a history that make no layer, as the classic builder and BuildKit write them.
NO_LAYER = re.compile(
    r"(?:/bin/sh -c #\(nop\))? *(ARG|CMD|ENTRYPOINT|ENV|EXPOSE|HEALTHCHECK|LABEL|ONBUILD|SHELL|STOPSIGNAL|USER|VOLUME) "
)
Edit = Callable[[Iterator[bytes]], Iterator[bytes]]


class BlobWriter(Protocol):
    """A blob that is being written; `keep` names it after the last `write`."""

    @property
    def write(self) -> Callable[[bytes], object]: ...
    def keep(self, layer: Layer) -> None: ...


class BlobSink(Protocol):
    """Takes blobs, one at a time: `begin` drops a blob that its block did not `keep`.

    `present` is the blob of a layer that the sink has already.
    """

    def present(self, diff_id: str) -> Descriptor | None: ...
    def begin(self) -> AbstractContextManager[BlobWriter]: ...


def engine_image(engine: Engine, reference: str) -> ImageInfo:
    """An image with one name, under which it can be loaded. Raises UsageError if it is missing or has no name."""
    image = engine.image(reference)
    if image is None:
        raise UsageError("the engine has no image of this name", reference, "`reprokit build` makes a recipe's image")
    if not image.names:
        raise UsageError("the image has no name to load it under", reference, "give it one with `docker tag`")
    requested = _short(reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest")
    names = [_short(name) for name in image.names]
    name = requested if requested in names else names[0]
    return replace(image, names=(name,))


def layer_sizes(engine: Engine, image: ImageInfo) -> dict[str, int]:
    """Approximate uncompressed bytes by diff ID; empty if the engine's history does not show them."""
    steps = engine.history(image.name)[::-1]
    made = [step.size for step in steps if not NO_LAYER.match(step.command)]
    filled = [step.size for step in steps if step.size]
    for sizes in (made, filled):
        if len(sizes) == len(image.layers):
            return dict(zip(image.layers, sizes, strict=True))
    return {}


def unpacked_size(engine: Engine, images: Sequence[ImageInfo], without: Callable[[str], object] = lambda _: 0) -> int:
    """Approximate uncompressed bytes of the images' layers, each once, except those that `without` is true for."""
    layers: dict[str, int] = {}
    others: dict[str, int] = {}
    for image in images:
        if sizes := layer_sizes(engine, image):
            layers |= sizes
        else:
            others[image.id] = image.size
    return sum(size for diff_id, size in layers.items() if not without(diff_id)) + sum(others.values())


def read_images(
    engine: Engine,
    images: Sequence[ImageInfo],
    sink: BlobSink,
    without: frozenset[str] = frozenset(),
    progress: ByteProgress = lambda done, total: None,
    packing: Compress = compress,
    edits: Mapping[str, Edit] | None = None,
    passing: PassingLayers | None = None,
) -> list[Image]:
    """The images in their order, out of one `save`; layers whose diff IDs are in `without` are excluded.

    `progress` gets uncompressed bytes, done and estimated. `edits` change layers, named by their diff IDs in the
    engine; then `passing` gets all layers. Raises EngineError if the engine sends less than it describes, and the
    errors of the sink.
    """
    paths = LayerPaths([image.layers for image in images])
    pass_ = _Pass(sink, without, progress, unpacked_size(engine, images), packing, edits or {}, passing)
    with contextlib.closing(engine.save(*(image.name for image in images))) as blocks:
        archive = ArchiveReader(blocks)
        for layer in archive.layers():
            pass_.add(layer, paths.diff_id(layer.path, archive.texts))
        archived = archive.images()
    if unknown := pass_.edits.keys() - pass_.original.values():
        raise EngineError(f"the engine's archive does not name the layer {', '.join(unknown)}")
    return [_image(image, archived, pass_) for image in images]


@dataclass
class _Pass:
    """`layers` are those that were read, by path; `original` their diff IDs in the engine."""

    sink: BlobSink
    without: frozenset[str]
    progress: ByteProgress
    total: int
    packing: Compress
    edits: Mapping[str, Edit]
    passing: PassingLayers | None
    done: int = 0
    layers: dict[str, Layer] = field(default_factory=dict)
    original: dict[str, str] = field(default_factory=dict)

    def add(self, layer: ArchivedLayer, predicted: str | None) -> None:
        blocks = self._counted(layer.blocks)
        if edit := self.edits.get(predicted or ""):
            blocks = edit(blocks)
        content_id = ""
        if self.passing:
            blocks = self.passing.passing(blocks)
        if edit:
            packed = self._pack(blocks)
            self.original[layer.path] = predicted or ""
        elif predicted and (predicted in self.without or self.sink.present(predicted)):
            # A present blob has been compared with this digest before, and an excluded layer needs no check.
            content = Hashed()
            size = sum(map(content.write if self.passing else len, blocks))
            packed, content_id = Layer(predicted, size, self.sink.present(predicted)), content.digest
        else:
            packed = self._pack(blocks)
        if self.passing:
            self.passing.named(content_id or packed.diff_id)
        self.layers[layer.path] = replace(packed, blob=None) if packed.diff_id in self.without else packed
        self.original.setdefault(layer.path, packed.diff_id)

    def _pack(self, blocks: Iterator[bytes]) -> Layer:
        """Write the layer to the sink if it is new there."""
        with self.sink.begin() as blob:
            packed = self.packing(blocks, blob.write)
            present = self.sink.present(packed.diff_id)
            if not present and packed.diff_id not in self.without:
                blob.keep(packed)
        return replace(packed, blob=present or packed.blob)

    def _counted(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            yield block
            self.done += len(block)
            self.progress(self.done, max(self.total, self.done))


def _image(requested: ImageInfo, archived: Sequence[ArchivedImage], pass_: _Pass) -> Image:
    for image in archived:
        layers = tuple(pass_.original[path] for path in image.layers)
        if layers == requested.layers and requested.name in map(_short, image.names):
            return Image(requested.name, image.config, tuple(pass_.layers[path] for path in image.layers))
    raise EngineError(
        "the engine's archive lacks the image that the engine describes", requested.name, "build the image again"
    )


def _short(name: str) -> str:
    """A name's short form: engines write the same name in several lengths."""
    for prefix in ("docker.io/", "library/", "localhost/"):
        name = name.removeprefix(prefix)
    return name
