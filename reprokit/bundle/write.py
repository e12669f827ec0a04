"""A bundle written beside its target in one pass, and renamed when it is complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from reprokit import __version__
from reprokit.bundle import inputs, signature
from reprokit.bundle.model import METADATA, SIGNATURE, Metadata, small_files
from reprokit.bundle.partial_file import claimed, partial_of
from reprokit.bundle.resumable_tar import ResumableTar
from reprokit.bundle.selection import describe
from reprokit.bundle.workspaces import add_workspace, workspace_of
from reprokit.engine import Engine
from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.formatting import size as in_words
from reprokit.host.disk import require_space
from reprokit.oci.compress import compress
from reprokit.oci.model import INDEX, Image, blob_path
from reprokit.oci.read import BlobSink, Compress, Edit, EngineImage, Progress, read_images
from reprokit.supply.store import Store

Say = Callable[[str], None]
# Real images shrink to a half or a quarter; what surely does not fit is refused before the engine works.
LEAST_RATIO = 4
# A fixed date keeps a bundle of inputs reproducible.
_NO_DATE = "19700101T000000Z"


@dataclass(frozen=True)
class Extras:
    """Recipes whose workspaces and whose locked inputs the bundle has beside images, and the key that signs."""

    workspaces: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    key: Path | None = None
    store: Store = field(default_factory=Store)


@dataclass(frozen=True)
class Changed:
    """Layers that change on their way into the bundle (`edits`, by diff ID), and the resulting image."""

    edits: Mapping[str, Edit]
    finish: Callable[[Image], Image]


def write(
    engine: Engine | None,
    images: Sequence[EngineImage],
    target: Path,
    without: frozenset[str] = frozenset(),
    extras: Extras = Extras(),
    changed: Changed | None = None,
    say: Say = lambda line: None,
    progress: Progress = lambda done, total: None,
) -> Metadata:
    """Write images and extras to `target`, completely or not at all, without the layers of `without`.

    An interrupted attempt at the same file is resumed. `engine` may be None where there are neither images nor bases
    from a registry. Equal inputs without images give equal bytes. Raises UsageError, EngineError, and SourceError where
    there is no space.
    """
    # Missing extras are reported before the engine has worked for minutes.
    for recipe in extras.workspaces:
        workspace_of(recipe)
    store = extras.store
    if extras.inputs:
        inputs.require_inputs(extras.inputs, store)
    bases = inputs.registry_bases(extras.inputs)
    with contextlib.ExitStack() as stack:
        if extras.inputs:
            stack.enter_context(store.in_use(say))
        all_images = [*images, *stack.enter_context(inputs.base_images(engine, bases, store, say))]
        expected = {layer for each in all_images for layer in each.layers} - without
        tar = stack.enter_context(becoming(target, say, expected))
        require_space(sum({each.id: each.size for each in all_images}.values()) // LEAST_RATIO, target.parent)
        found = gather(engine, all_images, tar, without, changed, progress)
        parts = sorted({add_workspace(tar, recipe) for recipe in extras.workspaces}, key=lambda part: part.path)
        carried = inputs.add_inputs(tar, extras.inputs, target.parent, store, say, progress) if extras.inputs else None
        metadata = described(found, all_images, say).model_copy(update={"parts": tuple(parts), "inputs": carried})
        if not images:
            metadata = metadata.model_copy(update={"created": _NO_DATE})
        files = dict(small_files(found, metadata.json_bytes()))
        if extras.key:
            files[SIGNATURE] = signature.sign(signature.statement(files[INDEX], files[METADATA]), extras.key)
        for path, content in files.items():
            tar.add(path, content)
        require_all(found, tar.entries)
    return metadata


def gather(
    engine: Engine | None,
    wanted: Sequence[EngineImage],
    sink: BlobSink,
    without: frozenset[str],
    changed: Changed | None,
    progress: Progress,
    packing: Compress = compress,
) -> list[Image]:
    """Read the images into the sink and apply `changed`. Raises as `read_images`."""
    if engine is None:
        return []
    edits = changed.edits if changed else {}
    images = read_images(engine, wanted, sink, without, progress, packing, edits)
    return [changed.finish(image) for image in images] if changed else images


def described(images: Sequence[Image], wanted: Sequence[EngineImage], say: Say) -> Metadata:
    """The metadata of these images."""
    return Metadata(
        reprokit=__version__,
        created=datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ"),
        images=tuple(describe(image, one.labels, say) for image, one in zip(images, wanted, strict=True)),
        absent=tuple(sorted({layer.diff_id for image in images for layer in image.layers if layer.blob is None})),
    )


def require_all(images: Sequence[Image], entries: Mapping[str, int]) -> None:
    """Raises SourceError where the entries lack a blob that an image names, or it has another size."""
    for image in images:
        for blob in [image.config_descriptor, *(layer.blob for layer in image.layers if layer.blob)]:
            if entries.get(blob_path(blob.digest)) != blob.size:
                raise SourceError(f"the blob {blob.digest} of {image.name} was not written", hint="export it again")


@contextlib.contextmanager
def becoming(target: Path, say: Say, expected: Collection[str] = frozenset()) -> Iterator[ResumableTar]:
    """A tar that is renamed to the target when the block ends.

    After a kill, an interrupt or the engine's end the finished layers of `expected` stay beside the target.
    """
    if target.is_dir():
        raise UsageError("the target is a folder", str(target), "name a file, such as x.rkit")
    partial = partial_of(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = claimed(partial, say)
    except OSError as error:
        raise UsageError(f"the file cannot be written: {error.strerror}", str(target)) from None
    with file:
        kept = False
        try:
            if expected and partial.stat().st_size:
                say("checking the layers that an earlier attempt has finished")
            tar = ResumableTar(file, expected)
            if tar.entries:
                say(f"going on from an earlier attempt: {in_words(sum(tar.entries.values()))} present")
            try:
                yield tar
                tar.end()
            except (KeyboardInterrupt, SystemExit, EngineError):
                kept = bool(expected and tar.entries)
                raise
            partial.replace(target)
            _sync(target.parent)
        except OSError as error:
            raise unwritable(error, target) from None
        finally:
            if kept:
                say(f"finished layers stay in {partial}; repeat the command to resume")
            else:
                partial.unlink(missing_ok=True)


def unwritable(error: OSError, target: Path) -> SourceError:
    """The error of a full or read-only disk."""
    return SourceError(
        f"the file cannot be written: {error.strerror or error}", str(target), "free space, or write it elsewhere"
    )


def _sync(folder: Path) -> None:
    """Sync the folder, so that the new name survives a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
