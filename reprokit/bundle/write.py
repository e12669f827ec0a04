"""A bundle written beside its target in one pass, and renamed when it is complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from reprokit import __version__
from reprokit.bundle import inputs, recipes, sbom, signature
from reprokit.bundle.model import METADATA, SIGNATURE, Metadata, small_files
from reprokit.bundle.partial_file import claimed, partial_of
from reprokit.bundle.resumable_tar import ResumableTar
from reprokit.bundle.selection import describe
from reprokit.bundle.space import SpaceEstimate
from reprokit.bundle.workspaces import add_workspace, workspace_of
from reprokit.display import ByteProgress, notify
from reprokit.engine import Engine, ImageInfo
from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.formatting import size as in_words
from reprokit.host.disk import unwritable
from reprokit.oci.canonical import PassingLayers, canonical_digest
from reprokit.oci.compress import compress, copy
from reprokit.oci.model import INDEX, Image, blob_path
from reprokit.oci.read import BlobSink, Compress, Edit, read_images, unpacked_size
from reprokit.supply.store import Store

# A fixed date keeps a bundle of inputs reproducible.
_NO_DATE = "19700101T000000Z"


@dataclass(frozen=True)
class Changed:
    """Layers that change on their way into the bundle (`edits`, by diff ID), and the resulting image."""

    edits: Mapping[str, Edit] = field(default_factory=dict)
    finish: Callable[[Image], Image] = lambda image: image


@dataclass(frozen=True)
class ExportJob:
    """The images to write to `target`, without the layers of `without`.

    Beside images a bundle has the workspaces and the locked inputs of these recipes, and a signature by `key`. `engine`
    may be None if there are neither images nor bases from a registry.
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
            images=tuple(describe(image, each.labels) for image, each in described),
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
    beside = recipes.beside([each.labels for each in job.images], job.inputs)
    with contextlib.ExitStack() as stack:
        if job.inputs:
            stack.enter_context(store.in_use())
        complete = replace(
            job, images=[*job.images, *stack.enter_context(inputs.base_images(job.engine, bases, store))]
        )
        expected = {layer for each in complete.images for layer in each.layers} - job.without
        tar = stack.enter_context(becoming(target, expected))
        cached = not job.changed.edits and all(canonical_digest(each.layers, {}) for each in complete.images)
        passing = PassingLayers()
        found = complete.read(tar, passing=None if cached else passing)
        for image in [] if cached else found:
            passing.keep(image.diff_ids)
        parts = sorted({add_workspace(tar, recipe) for recipe in job.workspaces}, key=lambda part: part.path)
        carried = inputs.add_inputs(tar, job.inputs, target.parent, store, job.progress) if job.inputs else None
        metadata = complete.metadata(found)
        boms = dict(filter(None, map(sbom.part_of, metadata.images)))
        metadata = metadata.model_copy(update={"parts": (*parts, *boms), "inputs": carried, "beside": beside})
        if not job.images:
            metadata = metadata.model_copy(update={"created": _NO_DATE})
        files = dict(small_files(found, metadata.json_bytes()))
        if job.key:
            files[SIGNATURE] = signature.sign(signature.statement(files[INDEX], files[METADATA]), job.key)
        for path, content in [*files.items(), *((part.path, content) for part, content in boms.items())]:
            tar.add(path, content)
        require_all(found, tar.entries)
    return metadata


def require_all(images: Sequence[Image], entries: Mapping[str, int]) -> None:
    """Raises SourceError if the entries lack a blob that an image names, or it has another size."""
    for image in images:
        for blob in [image.config_descriptor, *(layer.blob for layer in image.layers if layer.blob)]:
            if entries.get(blob_path(blob.digest)) != blob.size:
                raise SourceError(f"the blob {blob.digest} of {image.name} was not written", hint="export it again")


@contextlib.contextmanager
def becoming(target: Path, expected: Collection[str] = frozenset()) -> Iterator[ResumableTar]:
    """A tar that is renamed to the target when the block ends.

    After a kill, an interrupt or the engine's end the finished layers of `expected` stay beside the target.
    """
    partial = partial_of(target)
    with claim(target) as file:
        kept = False
        try:
            if expected and partial.stat().st_size:
                notify("checking the layers that an earlier attempt has finished")
            tar = ResumableTar(file, expected)
            if tar.entries:
                notify(f"going on from an earlier attempt: {in_words(sum(tar.entries.values()))} present")
            try:
                yield tar
                tar.end()
            except (KeyboardInterrupt, SystemExit, EngineError):
                kept = bool(expected and tar.entries)
                raise
            partial.replace(target)
            _sync(target.parent)
        except OSError as error:
            raise unwritable(error, "the file", target) from None
        finally:
            if kept:
                notify(f"finished layers stay in {partial}; repeat the command to resume")
            else:
                partial.unlink(missing_ok=True)


def claim(target: Path) -> IO[bytes]:
    """The partial file of a target, for this process alone. Raises UsageError, EngineError as `unwritable`.

    A device or a pipe is refused: the rename would replace it.
    """
    try:
        if target.exists() and not target.is_file():
            what = "a folder" if target.is_dir() else "no regular file"
            raise UsageError(f"the target is {what}", str(target), "name a file, such as x.rkit")
        return claimed(partial_of(target))
    except OSError as error:
        raise unwritable(error, "the file", target) from None


def _sync(folder: Path) -> None:
    """Sync the folder, so that the new name survives a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
