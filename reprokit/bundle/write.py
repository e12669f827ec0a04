"""Write a bundle beside its target in one pass, and rename it when it is complete."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from reprokit import __version__
from reprokit.bundle import inputs, recipes, sbom, signature
from reprokit.bundle.model import METADATA, SIGNATURE, ImageMetadata, Metadata, small_files
from reprokit.bundle.resumable_tar import becoming
from reprokit.bundle.workspaces import add_workspace, workspace_of
from reprokit.display import ByteProgress, notify
from reprokit.engine import Engine, ImageInfo
from reprokit.errors import ReprokitError, SourceError
from reprokit.host.disk import require_space
from reprokit.image.labels import ImageLabels
from reprokit.oci.canonical import PassingLayers, canonical_digest
from reprokit.oci.compress import Write, compress, copy
from reprokit.oci.model import INDEX, Image, Layer, blob_path
from reprokit.oci.read import BlobSink, Compress, Edit, read_images, unpacked_size
from reprokit.recipe.find import recipe_files
from reprokit.recipe.load import recipe_text
from reprokit.supply.lock import file as lock_file
from reprokit.supply.store import Store

# Layers with CUDA and torch shrink to a third (measured: 240 MB to 78 MB). This estimate weighs as 3 % of the image.
_RATIO, _WEIGHT = 1 / 3, 0.03
_MARGIN = 1.05
_EVERY = 16 << 20
_HINT = "free {amount} there, or write it elsewhere with -o"
# A fixed date keeps a bundle of inputs reproducible.
_NO_DATE = "19700101T000000Z"


class SpaceEstimate:
    """Estimates the space for `total` uncompressed bytes in a folder, compressed or copied."""

    def __init__(self, total: int, folder: Path, copied: bool = False) -> None:
        self._total, self._folder, self._copied = total, folder.absolute(), copied
        self._checked = 0

    def needed(self, unpacked: int, packed: int) -> int:
        """Estimate the bytes still to write, after `unpacked` bytes were compressed to `packed` bytes."""
        weight = self._total * _WEIGHT or 1
        ratio = 1 if self._copied else _MARGIN * (packed + weight * _RATIO) / (unpacked + weight)
        return int(max(0, self._total - unpacked) * ratio)

    def check(self, unpacked: int = 0, packed: int = 0) -> None:
        """Raises EngineError if the bytes still to write do not fit on the disk."""
        require_space(self.needed(unpacked, packed), self._folder, hint=_HINT)

    def measured(self, packing: Compress) -> Compress:
        """Check the space while layers are packed."""
        unpacked = packed = 0

        def measure(blocks: Iterator[bytes], write: Write) -> Layer:
            return packing(read(blocks), written(write))

        def read(blocks: Iterator[bytes]) -> Iterator[bytes]:
            nonlocal unpacked
            for block in blocks:
                yield block
                unpacked += len(block)
                if unpacked - self._checked >= _EVERY:
                    self._checked = unpacked
                    self.check(unpacked, packed)

        def written(write: Write) -> Callable[[bytes], object]:
            def count(block: bytes) -> object:
                nonlocal packed
                packed += len(block)
                return write(block)

            return count

        self.check()
        return measure


@dataclass(frozen=True)
class Changed:
    """Layers that change on their way into the bundle (`edits`, by diff ID), and the resulting image."""

    edits: Mapping[str, Edit] = field(default_factory=dict)
    finish: Callable[[Image], Image] = lambda image: image


@dataclass(frozen=True)
class ExportJob:
    """The images to write to `target`, excluding the layers `without`.

    A bundle also has the workspaces and the locked inputs of these recipes, and a signature by `key`. `engine` may be
    None if there are neither images nor bases from a registry.
    """

    engine: Engine | None
    images: Sequence[ImageInfo]
    target: Path
    without: frozenset[str] = frozenset()
    workspaces: Sequence[str] = ()
    inputs: Sequence[str] = ()
    key: Path | None = None
    store: Store = field(default_factory=Store)
    changed: Changed = Changed()
    progress: ByteProgress = lambda done, total: None

    def read(self, sink: BlobSink, packing: Compress = compress, passing: PassingLayers | None = None) -> list[Image]:
        """Read the images into the sink and apply `changed`. Raises as `read_images`, and EngineError without space."""
        if self.engine is None:
            return []

        def excluded(diff_id: str) -> bool:
            return diff_id in self.without or sink.present(diff_id) is not None

        total = unpacked_size(self.engine, self.images, excluded)
        packing = SpaceEstimate(total, self.target.parent, copied=packing is copy).measured(packing)
        edits = self.changed.edits
        images = read_images(self.engine, self.images, sink, self.without, self.progress, packing, edits, passing)
        return [self.changed.finish(image) for image in images]

    def metadata(self, images: Sequence[Image]) -> Metadata:
        """The metadata of the images that were read."""
        described = zip(images, self.images, strict=True)
        return Metadata(
            reprokit=__version__,
            created=datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ"),
            images=tuple(describe(image, info.labels) for image, info in described),
            unpacked=sum({layer.diff_id: layer.size for image in images for layer in image.layers}.values()),
            absent=tuple(sorted({layer.diff_id for image in images for layer in image.layers if layer.blob is None})),
        )


def write(job: ExportJob) -> Metadata:
    """Write a bundle, completely or not at all. An interrupted attempt at the same file is resumed.

    Equal inputs without images give equal bytes. Raises UsageError, EngineError, and SourceError if there is no
    space.
    """
    target, store = job.target, job.store
    # Report a missing extra, or a key that cannot sign, before the engine works for minutes.
    if job.key:
        signature.sign(b"", job.key)
    for recipe in job.workspaces:
        workspace_of(recipe)
    if job.inputs:
        inputs.require_inputs(job.inputs, store)
    bases = inputs.registry_bases(job.inputs)
    beside = recipes.beside([image.labels for image in job.images], job.inputs)
    with contextlib.ExitStack() as stack:
        if job.inputs:
            stack.enter_context(store.in_use())
        complete = replace(
            job, images=[*job.images, *stack.enter_context(inputs.base_images(job.engine, bases, store))]
        )
        expected = {layer for image in complete.images for layer in image.layers} - job.without
        tar = stack.enter_context(becoming(target, expected))
        cached = not job.changed.edits and all(canonical_digest(image.layers, {}) for image in complete.images)
        passing = PassingLayers()
        images = complete.read(tar, passing=None if cached else passing)
        for image in [] if cached else images:
            passing.keep(image.diff_ids)
        parts = sorted({add_workspace(tar, recipe) for recipe in job.workspaces}, key=lambda part: part.path)
        carried = inputs.add_inputs(tar, job.inputs, target.parent, store, job.progress) if job.inputs else None
        metadata = complete.metadata(images)
        boms = dict(filter(None, map(sbom.part_of, metadata.images)))
        metadata = metadata.model_copy(update={"parts": (*parts, *boms), "inputs": carried, "beside": beside})
        if not job.images:
            metadata = metadata.model_copy(update={"created": _NO_DATE})
        files = dict(small_files(images, metadata.json_bytes()))
        if job.key:
            files[SIGNATURE] = signature.sign(signature.statement(files[INDEX], files[METADATA]), job.key)
        for path, content in [*files.items(), *((part.path, content) for part, content in boms.items())]:
            tar.add(path, content)
        require_all(images, tar.entries)
    return metadata


def require_all(images: Sequence[Image], entries: Mapping[str, int]) -> None:
    """Raises SourceError if the entries lack a blob that an image names, or it has another size."""
    for image in images:
        for blob in [image.config_descriptor, *(layer.blob for layer in image.layers if layer.blob)]:
            if entries.get(blob_path(blob.digest)) != blob.size:
                raise SourceError(f"the blob {blob.digest} of {image.name} was not written", hint="export it again")


def describe(image: Image, labels: Mapping[str, str]) -> ImageMetadata:
    """The image's entry in `reprokit.json`, from its labels, with the recipe and the lock if they exist locally."""
    described = ImageLabels.read(labels)
    recipe_text, lock_text = (
        _texts(described.recipe, described.variant, described.lock) if described.recipe else ("", "")
    )
    return ImageMetadata(
        name=image.name,
        id=image.id,
        canonical=canonical_digest(image.diff_ids, image.settings) or None,
        size=sum(layer.size for layer in image.layers),
        packed=sum(layer.blob.size for layer in image.layers if layer.blob),
        recipe=described.recipe,
        variant=described.variant,
        inputs=described.inputs,
        pins=dict(described.needs.pins),
        min_driver=described.needs.min_driver,
        compute_capabilities=described.needs.compute_capabilities,
        recipe_text=recipe_text,
        lock_text=lock_text,
    )


def _texts(recipe: str, variant: str, locked: str) -> tuple[str, str]:
    """The recipe and its lock. A lock that has changed since the build is excluded."""
    path = recipe_files().get(recipe)
    if path is None:
        notify(f"the recipe {recipe} is not here: the bundle will not have its text")
        return "", ""
    lock = lock_file.lock_path(path)
    try:
        text = lock_file.lock_text(lock)
        now = lock_file.parse(text, str(lock), recipe).variants.get(variant)
    except (FileNotFoundError, ReprokitError):
        return recipe_text(path), ""
    if now is None or now.hash != locked:
        if locked:
            notify(f"the lock of {recipe} has changed since {recipe}:{variant} was built: the bundle will not have it")
        return recipe_text(path), ""
    return recipe_text(path), text
