"""Bundles taken in: all is checked before the engine sees a byte, then come the images, and their names at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from reprokit.bundle import fit, signature, target
from reprokit.bundle.giving import STEP, Giving
from reprokit.bundle.model import INDEX, METADATA, SIGNATURE, Image
from reprokit.bundle.read import Bundle, opened
from reprokit.bundle.target import Chain, Target, diff_ids, held
from reprokit.bundle.verify import Checked, Watch, verify
from reprokit.container.gpu_host import Gpu
from reprokit.engine import Engine
from reprokit.errors import UsageError, WorkFailed

Say = Callable[[str], None]
Shown = AbstractContextManager[Watch]


@dataclass
class Loaded:
    """Names of images that came now, and of those that were here."""

    new: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)


def checked(paths: Sequence[Path], stack: ExitStack, shown: Callable[[Path], Shown]) -> list[Checked]:
    """Open and verify bundles, which `stack` closes. Raises UsageError naming the file and what is wrong in it."""
    bundles = [stack.enter_context(opened(path)) for path in paths]
    found = []
    for bundle in bundles:
        with shown(bundle.path) as watch:
            found.append(verify(bundle, watch))
    return found


def signer(bundle: Bundle, allowed: Path | None) -> str:
    """Whose key signed a bundle, empty where none did.

    Raises WorkFailed where the signature is not of this bundle, or not of one of the `allowed` keys.
    """
    if SIGNATURE not in bundle.members:
        if allowed:
            raise WorkFailed("the bundle is not signed", bundle.where, "leave out --signed-by to load it all the same")
        return ""
    text = signature.statement(bundle.read(INDEX), bundle.read(METADATA))
    found = signature.verify(text, bundle.read(SIGNATURE), allowed)
    return f"{found.principal} {found.fingerprint}" if found.principal not in ("", "*") else found.fingerprint


def load(
    files: Sequence[Checked],
    engine: Engine,
    gpus: Sequence[Gpu],
    force: bool,
    say: Say,
    shown: Callable[[str], Shown],
) -> Loaded:
    """Give the images of bundles to an engine, in order, each under its name once all its layers are there.

    Raises UsageError where a layer is neither in the bundles nor at the engine, EngineError where there is no room or
    the engine fails, WorkFailed where this host cannot run an image and not `force`.
    """
    for file in files:
        for described in file.bundle.metadata.images:
            fit.require(described, gpus, force, say)
    there = Target.of(engine)
    _need_layers(files, there)
    target.need_room(there, _room(files, there))
    found = Loaded()
    for file in files:
        for image in file.bundle.images:
            with shown(image.name) as watch:
                giving = Giving(file, image, there, watch)
                giving.all()
            _name(engine, image, giving.id, found, say)
    return found


def _need_layers(files: Sequence[Checked], there: Target) -> None:
    coming: dict[Chain, str] = {}
    for file in files:
        for image in file.bundle.images:
            ids = diff_ids(image)
            absent = [
                layer.diff_id
                for n, layer in enumerate(image.layers, 1)
                if layer.blob is None and ids[:n] not in there.chains and ids[:n] not in coming
            ]
            if absent:
                raise UsageError(
                    f"{image.name}: {len(absent)} of its {len(ids)} layers were left out of the bundle, and the engine "
                    f"does not have them ({absent[0][:19]} for one)",
                    file.bundle.where,
                    "load the bundle that it was made against first, or export it again without --since and --for",
                )
            coming |= target.chains({ids: image.id})


def _room(files: Sequence[Checked], there: Target) -> int:
    """Bytes that the engine needs for what it does not have, and for what it puts beside that while it works."""
    new: dict[Chain, int] = {}
    for file in files:
        for image in file.bundle.images:
            ids = diff_ids(image)
            for n in range(held(ids, there.chains), len(ids)):
                layer = image.layers[n]
                packed = layer.blob.size if layer.blob and not there.form.plain else 0
                new[ids[: n + 1]] = file.sizes.get(layer.diff_id, 0) + packed
    return sum(new.values()) + min(sum(new.values()), 2 * STEP)


def _name(engine: Engine, image: Image, image_id: str, found: Loaded, say: Say) -> None:
    before = engine.image(image.name)
    if before and before["Id"] == image_id:
        found.there.append(image.name)
        return
    if before:
        say(f"{image.name} is another image from now on; it was {before['Id']}")
    repository, _, tag = image.name.rpartition(":")
    engine.tag(image_id, repository, tag)
    found.new.append(image.name)
