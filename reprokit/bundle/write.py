"""A bundle written beside its target in one pass, and renamed when it is whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from reprokit import __version__
from reprokit.bundle import layout, parts, signature
from reprokit.bundle.collect import Edit, Pack, Sink, Wanted, Watch, collect
from reprokit.bundle.model import INDEX, METADATA, SIGNATURE, Image, Metadata, Part, blob_path
from reprokit.bundle.pack import pack
from reprokit.bundle.partial import PartialTar
from reprokit.bundle.subjects import describe
from reprokit.engine import Engine
from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.formatting import size as in_words
from reprokit.host.disk import require_space
from reprokit.supply.store import Store
from reprokit.supply.transfer.claim import claimed, partial_of

Say = Callable[[str], None]
# Real images become a quarter to a half of their size; what surely does not fit is refused before the engine works.
LEAST_RATIO = 4


@dataclass(frozen=True)
class Extras:
    """Beside the images: recipes whose workspaces and whose locked inputs travel along, and the key that signs."""

    workspaces: tuple[str, ...] = ()
    store: tuple[str, ...] = ()
    key: Path | None = None


@dataclass(frozen=True)
class Changed:
    """A layer on its way into the bundle as another (`edits`, by diff id), and what that makes of the image."""

    edits: Mapping[str, Edit]
    finish: Callable[[Image], Image]


def write(
    engine: Engine,
    wanted: Sequence[Wanted],
    target: Path,
    without: frozenset[str] = frozenset(),
    extras: Extras = Extras(),
    changed: Changed | None = None,
    say: Say = lambda line: None,
    watch: Watch = lambda done, total: None,
) -> Metadata:
    """Write these images to `target`, whole or not at all, without the layers of `without`.

    What an interrupted attempt at the same file has finished is used again. Raises UsageError, EngineError, and
    SourceError where there is no space.
    """
    # What is missing is told before the engine has worked for minutes.
    for recipe in extras.workspaces:
        parts.workspace_of(recipe)
    if extras.store:
        from reprokit.supply.transfer.exporting import require_inputs

        require_inputs(extras.store, Store())
    with becoming(target, say, {layer for each in wanted for layer in each.layers} - without) as tar:
        require_space(sum({each.id: each.size for each in wanted}.values()) // LEAST_RATIO, target.parent)
        images = gather(engine, wanted, tar, without, changed, watch)
        carried = _parts(engine, tar, extras, target, say)
        metadata = described(images, wanted, say, carried)
        files = dict(layout.small_files(images, metadata.model_dump_json(indent=1).encode()))
        if extras.key:
            files[SIGNATURE] = signature.sign(signature.statement(files[INDEX], files[METADATA]), extras.key)
        for path, content in files.items():
            tar.add(path, content)
        require_all(images, tar.entries)
    return metadata


def gather(
    engine: Engine,
    wanted: Sequence[Wanted],
    sink: Sink,
    without: frozenset[str],
    changed: Changed | None,
    watch: Watch,
    packing: Pack = pack,
) -> list[Image]:
    """The images with their layers in the sink, as they are to be or as they become. Raises as `collect`."""
    edits = changed.edits if changed else {}
    images = collect(engine, [each.name for each in wanted], sink, without, watch, packing, edits)
    return [changed.finish(image) for image in images] if changed else images


def described(images: Sequence[Image], wanted: Sequence[Wanted], say: Say, carried: tuple[Part, ...] = ()) -> Metadata:
    """What `reprokit.json` says of these images and parts."""
    return Metadata(
        reprokit=__version__,
        created=datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ"),
        images=tuple(describe(image, one.labels, say) for image, one in zip(images, wanted, strict=True)),
        absent=tuple(sorted({layer.diff_id for image in images for layer in image.layers if layer.blob is None})),
        parts=carried,
    )


def require_all(images: Sequence[Image], entries: Mapping[str, int]) -> None:
    """Raises SourceError where a blob that an image names is not among the entries as large as it should be."""
    for image in images:
        for blob in [image.config_descriptor, *(layer.blob for layer in image.layers if layer.blob)]:
            if entries.get(blob_path(blob.digest)) != blob.size:
                raise SourceError(f"the blob {blob.digest} of {image.name} was not written", hint="export it again")


@contextlib.contextmanager
def becoming(target: Path, say: Say, wanted: Collection[str] = frozenset()) -> Iterator[PartialTar]:
    """A tar that takes the target's place when the block ends.

    What is finished of the layers `wanted` stays beside the target when the process is killed, interrupted or left by
    its engine.
    """
    if target.is_dir():
        raise UsageError("this is a folder", str(target), "name a file, such as x.rkit")
    partial = partial_of(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = claimed(partial, say)
    except OSError as error:
        raise UsageError(f"the file cannot be written: {error.strerror}", str(target)) from None
    with file:
        kept = False
        try:
            if wanted and partial.stat().st_size:
                say("looking at what an earlier attempt has finished")
            tar = PartialTar(file, wanted)
            if tar.entries:
                say(f"going on from an earlier attempt: {in_words(sum(tar.entries.values()))} are there")
            try:
                yield tar
                tar.end()
            except (KeyboardInterrupt, SystemExit, EngineError):
                kept = bool(wanted and tar.entries)
                raise
            partial.replace(target)
            _sync(target.parent)
        except OSError as error:
            raise unwritable(error, target) from None
        finally:
            if kept:
                say(f"what is finished stays in {partial}; the same command goes on from it")
            else:
                partial.unlink(missing_ok=True)


def unwritable(error: OSError, target: Path) -> SourceError:
    """What a full or read-only disk did to `target`."""
    return SourceError(
        f"the file cannot be written: {error.strerror or error}", str(target), "free space, or write it elsewhere"
    )


def _sync(folder: Path) -> None:
    """The new name is on the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _parts(engine: Engine, tar: PartialTar, extras: Extras, target: Path, say: Say) -> tuple[Part, ...]:
    carried = {parts.add_workspace(tar, recipe) for recipe in extras.workspaces}
    if extras.store:
        carried.add(parts.add_store(tar, list(extras.store), target.parent, Store(), lambda: engine, say))
    return tuple(sorted(carried, key=lambda part: part.path))
