"""Bundles taken in: all is checked before the engine sees a byte, then come the images, and their names at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprokit import consent
from reprokit.bundle import signature, target
from reprokit.bundle.giving import STEP, Giving, is_image
from reprokit.bundle.model import INDEX, METADATA, SIGNATURE, Image
from reprokit.bundle.read import Bundle, opened
from reprokit.bundle.target import Chain, Target, diff_ids, held
from reprokit.bundle.verify import Checked, Watch, verify
from reprokit.engine import Engine
from reprokit.errors import UsageError, WorkFailed
from reprokit.host.fit import ImageNeeds, require_image
from reprokit.host.gpu import GpuDevice
from reprokit.image import trust
from reprokit.image.labels import kind_of_name

Say = Callable[[str], None]
Shown = AbstractContextManager[Watch]


@dataclass
class Loaded:
    """Names of images that came now, and of those that were here."""

    new: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Allowed:
    """What the user agreed to: `force` loads images that this host cannot run, `replace` moves existing tags.

    `trusted_by` is why the images are trusted, empty where they are not.
    """

    force: bool = False
    replace: bool = False
    trusted_by: str = ""


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
    if SIGNATURE not in bundle.signed:
        if allowed:
            raise WorkFailed("the bundle is not signed", bundle.where, "leave out --signed-by to load it all the same")
        return ""
    # Of the contents that everything else was taken from, whatever the file holds by now.
    text = signature.statement(bundle.signed[INDEX], bundle.signed[METADATA])
    found = signature.verify(text, bundle.signed[SIGNATURE], allowed)
    return f"{found.principal} {found.fingerprint}" if found.principal not in ("", "*") else found.fingerprint


def check_names(bundle: Bundle, trusted: bool) -> None:
    """Raises UsageError where a name of an image is reprokit's own, or of no recipe and the bundle is not `trusted`."""
    for image in bundle.images:
        kind = kind_of_name(image.name)
        if kind == "reserved":
            raise UsageError(f"{image.name!r} is no name that a bundle can give an image", bundle.where)
        if kind == "foreign":
            consent.require(
                f"the bundle brings {image.name}, which is no recipe's image", "--trust", trusted, bundle.where
            )


def load(
    files: Sequence[Checked],
    engine: Engine,
    gpus: Sequence[GpuDevice],
    allowed: Allowed,
    say: Say,
    shown: Callable[[str], Shown],
) -> Loaded:
    """Give the images of bundles to an engine, in order, each under its name once all its layers are there.

    Raises UsageError where a layer is neither in the bundles nor at the engine, or where a name is another image's and
    the user does not agree to move it, EngineError where there is no room or the engine fails, WorkFailed where this
    host cannot run an image and that is not allowed.
    """
    for file in files:
        for described in file.bundle.metadata.images:
            needs = ImageNeeds(described.pins, described.min_driver, described.compute_capabilities)
            require_image(described.name, needs, gpus, allowed.force, say)
    there = Target.of(engine)
    _need_layers(files, there)
    target.need_room(there, _room(files, there))
    before = {image.name: engine.image(image.name) for file in files for image in file.bundle.images}
    moved = _moved(files, before, there, say)
    if moved:
        consent.require(f"there are other images called {', '.join(moved)}", "--replace", allowed.replace)
    known = {name: {image["Id"]} if image else set() for name, image in before.items()}
    found = Loaded()
    for file in files:
        for image in file.bundle.images:
            with shown(image.name) as watch:
                giving = Giving(file, image, there, watch)
                giving.all()
            if allowed.trusted_by:
                trust.record(engine, giving.id, "trusted", allowed.trusted_by)
            _name(engine, image, giving.id, known[image.name], found, say)
    return found


def _moved(files: Sequence[Checked], before: Mapping[str, dict[str, Any] | None], there: Target, say: Say) -> list[str]:
    """Names that are those of other images. Of a bundle that brings something it is said that it is not signed."""
    other = {name: True for name, image in before.items() if image}
    for file in files:
        new = False
        for image in file.bundle.images:
            found = before[image.name]
            if found and is_image(file, image, there, found):
                other[image.name] = False
            else:
                new = True
        if new and SIGNATURE not in file.bundle.signed:
            say(f"{file.bundle.path.name} is not signed: nothing shows who made it")
    return [name for name, moved in other.items() if moved]


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


def _name(engine: Engine, image: Image, image_id: str, known: set[str], found: Loaded, say: Say) -> None:
    """Give an image its name, unless that is another's by now than those that the user was asked about."""
    before = engine.image(image.name)
    if before and before["Id"] == image_id:
        found.there.append(image.name)
        return
    if before:
        consent.require(f"there is another image called {image.name} by now", "--replace", before["Id"] in known)
        say(f"{image.name} moved; it pointed to {before['Id']}")
    repository, _, tag = image.name.rpartition(":")
    engine.tag(image_id, repository, tag)
    known.add(image_id)
    found.new.append(image.name)
