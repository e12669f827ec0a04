"""The layers of an image in the engine or in a bundle, written uncompressed into a folder to be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Protocol

from reprokit import paths
from reprokit.bundle.compare import instructions, instructions_of
from reprokit.bundle.read import VerifiedBundle, opened
from reprokit.bundle.read import verify as verify_bundle
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.host.disk import free_bytes, too_small
from reprokit.oci.blob_folder import BlobFolder
from reprokit.oci.canonical import canonical_digest, keep
from reprokit.oci.compress import copy
from reprokit.oci.effect import Effect, Files
from reprokit.oci.entries import LayerEntry, entries
from reprokit.oci.model import Image, Layer
from reprokit.oci.read import engine_image, read_images
from reprokit.untrusted.limits import COMPARED

_BLOCK = 1 << 20


class ComparedImage(Protocol):
    """An image that can be compared: its diff IDs from the base up, the instruction of each, its settings.

    `id` is empty for an image that is not in the engine.
    """

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def diff_ids(self) -> tuple[str, ...]: ...
    @property
    def instructions(self) -> list[str]: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    def write(self, diff_ids: frozenset[str], folder: Path) -> None:
        """Write these layers uncompressed. Raises UsageError, EngineError."""


@dataclass(frozen=True)
class ImageInEngine:
    engine: Engine
    name: str
    id: str
    diff_ids: tuple[str, ...]
    config: Mapping[str, Any]

    @classmethod
    def of(cls, engine: Engine, name: str) -> ImageInEngine:
        """Raises UsageError if the engine has no such image."""
        image = engine_image(engine, name)
        return cls(engine, image.name, image.id, image.layers, image.config)

    @property
    def instructions(self) -> list[str]:
        return instructions_of(self.engine.history(self.name), len(self.diff_ids))

    def write(self, diff_ids: frozenset[str], folder: Path) -> None:
        without = frozenset(self.diff_ids) - diff_ids
        image = engine_image(self.engine, self.name)
        read_images(self.engine, [image], BlobFolder(folder), without, packing=_bounded(folder))


@dataclass(frozen=True)
class ImageInBundle:
    bundle: VerifiedBundle
    image: Image
    id: str = ""

    @property
    def name(self) -> str:
        return self.image.name

    @property
    def diff_ids(self) -> tuple[str, ...]:
        return self.image.diff_ids

    @property
    def instructions(self) -> list[str]:
        return instructions(self.image.config, len(self.diff_ids))

    @property
    def config(self) -> Mapping[str, Any]:
        return self.image.settings

    def write(self, diff_ids: frozenset[str], folder: Path) -> None:
        if missing := diff_ids - self.bundle.sizes.keys():
            hint = "compare with the image in the engine, or with a bundle that has all layers"
            raise UsageError(f"the layer {min(missing)} is excluded from the bundle", self.bundle.bundle.where, hint)
        bounded, sink = _bounded(folder), BlobFolder(folder)
        for diff_id in diff_ids:
            with sink.begin() as blob:
                blob.keep(bounded(self.bundle.blocks(diff_id, True, lambda count: None), blob.write))


@contextmanager
def image_in_bundle(path: Path, name: str) -> Iterator[ImageInBundle]:
    """The image of this name in a bundle, or its only one; every byte is hashed. Raises UsageError."""
    with opened(path) as bundle:
        images = [image for image in bundle.images if image.name == name] or list(bundle.images)
        if len(images) != 1:
            names = ", ".join(image.name for image in bundle.images)[:1000]
            raise UsageError(f"the bundle has no image {name}", str(path), f"it has {names or 'none'}")
        yield ImageInBundle(verify_bundle(bundle), images[0])


def written(image: ComparedImage, again: ComparedImage, folder: Path) -> dict[str, Path]:
    """Write the layers of both, each once; returns their files by diff ID. Raises UsageError, EngineError."""
    # A bundle may lack the content of a layer that both images have; an engine has it.
    again.write(frozenset(again.diff_ids), folder)
    if missing_layers := frozenset(image.diff_ids) - frozenset(again.diff_ids):
        image.write(missing_layers, folder)
    files = {}
    for diff_id in (*image.diff_ids, *again.diff_ids):
        if (stored := BlobFolder(folder).find(diff_id, "tar")) is None:
            raise UsageError(f"the layer {diff_id} could not be read")
        files[diff_id] = stored.path
    return files


def effect(files: Files, layer: Path, where: str) -> Effect:
    """Apply a written layer to the files below it. Raises UsageError naming `where`."""
    with layer.open("rb") as file:
        return files.apply(_entries(file, where), where)


def _entries(file: IO[bytes], where: str) -> Iterator[tuple[str, LayerEntry]]:
    return entries(iter(lambda: file.read(_BLOCK), b""), where)


def digest(image: ComparedImage) -> str:
    """The canonical digest of an image; reads all layers if it is not cached. Raises UsageError, EngineError."""
    if not canonical_digest(image.diff_ids, image.config):
        with TemporaryDirectory(dir=paths.private(paths.home() / "tmp")) as scratch, ExitStack() as stack:
            layers = written(image, image, Path(scratch))
            files = (stack.enter_context(layers[diff_id].open("rb")) for diff_id in image.diff_ids)
            keep(image.diff_ids, (_entries(file, image.name) for file in files), image.name)
    return canonical_digest(image.diff_ids, image.config)


def _bounded(folder: Path) -> Callable[[Iterable[bytes], Callable[[bytes], object]], Layer]:
    """`copy`, which stops if layers need more than the limit or than the disk has."""
    written, free = 0, free_bytes(folder)

    def counted(blocks: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal written
        for block in blocks:
            written += len(block)
            COMPARED.check(written, "bytes of layers to compare")
            if free is not None and written > free:
                raise too_small(written, free, str(folder))
            yield block

    return lambda blocks, write: copy(counted(blocks), write)
