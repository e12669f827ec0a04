"""Bundles loaded into an engine: all bytes are verified first, names are moved last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprokit import consent
from reprokit.bundle import signature
from reprokit.bundle.model import METADATA, SIGNATURE, BundledInputs
from reprokit.bundle.read import Bundle, opened
from reprokit.bundle.verify import Progress, VerifiedBundle, verify
from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.host.fit import ImageNeeds, require_image
from reprokit.host.gpu import GpuDevice
from reprokit.image import trust
from reprokit.image.base.resolve import carried_name
from reprokit.image.labels import kind_of_name
from reprokit.oci.loader import STEP, Loader, as_stored
from reprokit.oci.model import INDEX, Image
from reprokit.oci.store import Chain, ImageStore, LayerChains, layers_of

Say = Callable[[str], None]
Shown = AbstractContextManager[Progress]


@dataclass
class Loaded:
    """Names of new images, and of those that were present."""

    new: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Allowed:
    """The user's consent: `force` loads images that this host cannot run, `replace` moves existing names.

    `trusted_by` is the reason to trust the images, empty where they are unverified.
    """

    force: bool = False
    replace: bool = False
    trusted_by: str = ""


def checked(paths: Sequence[Path], stack: ExitStack, shown: Callable[[Path], Shown]) -> list[VerifiedBundle]:
    """Open and verify bundles, which `stack` closes. Raises UsageError naming the file and the damage."""
    bundles = [stack.enter_context(opened(path)) for path in paths]
    found = []
    for bundle in bundles:
        with shown(bundle.path) as progress:
            found.append(verify(bundle, progress))
    return found


def signer(bundle: Bundle, allowed: Path | None) -> str:
    """The signer of a bundle, empty where it is not signed.

    Raises WorkFailed where the signature belongs to other content, or to none of the `allowed` keys.
    """
    if SIGNATURE not in bundle.signed:
        if allowed:
            raise WorkFailed("the bundle is not signed", bundle.where, "to load it unverified, leave out --signed-by")
        return ""
    # Checks the bytes that were read and used; the file may have changed since.
    text = signature.statement(bundle.signed[INDEX], bundle.signed[METADATA])
    found = signature.verify(text, bundle.signed[SIGNATURE], allowed)
    return f"{found.principal} {found.fingerprint}" if found.principal not in ("", "*") else found.fingerprint


def check_names(bundle: Bundle, trusted: bool) -> None:
    """Raises UsageError for reserved names, and for names of no recipe unless the bundle is `trusted`."""
    inputs = bundle.metadata.inputs
    bases = {carried_name(digest) for digest in inputs.bases} if inputs else set()
    for image in bundle.images:
        kind = kind_of_name(image.name)
        if image.name in bases:
            continue
        if kind == "reserved":
            raise UsageError(f"{image.name!r} is a reserved name, which a bundle cannot use", bundle.where)
        if kind == "foreign":
            consent.require(
                f"the bundle has {image.name}, which is no recipe's image", "--trust", trusted, bundle.where
            )


def load(
    files: Sequence[VerifiedBundle],
    engine: Engine,
    gpus: Sequence[GpuDevice],
    allowed: Allowed,
    say: Say,
    shown: Callable[[str], Shown],
) -> Loaded:
    """Load the images of bundles into an engine, in order; each gets its name when it is complete.

    Raises UsageError where neither the bundles nor the engine have a layer, or where a name belongs to another image
    and the user does not agree to move it; EngineError where the disk is too small or the engine fails; WorkFailed
    where this host cannot run an image, without `force`.
    """
    for file in files:
        for described in file.bundle.metadata.images:
            needs = ImageNeeds(described.pins, described.min_driver, described.compute_capabilities)
            require_image(described.name, needs, gpus, allowed.force, say)
    store = ImageStore.of(engine)
    _need_layers(files, store)
    store.require_space(_space(files, store))
    before = {image.name: engine.image(image.name) for file in files for image in file.bundle.images}
    moved = _moved(files, before, store, say)
    if moved:
        consent.require(f"there are other images called {', '.join(moved)}", "--replace", allowed.replace)
    known = {name: {image["Id"]} if image else set() for name, image in before.items()}
    found = Loaded()
    for file in files:
        for image in file.bundle.images:
            _load(file, image, store, allowed.trusted_by, known[image.name], found, say, shown)
    return found


def _load(
    file: VerifiedBundle,
    image: Image,
    store: ImageStore,
    trusted_by: str,
    known: set[str],
    found: Loaded,
    say: Say,
    shown: Callable[[str], Shown],
) -> None:
    with shown(image.name) as progress:
        loader = Loader(file, image, store, progress)
        loader.load()
    if trusted_by:
        trust.record(store.engine, loader.id, "trusted", trusted_by)
    _name(store.engine, image, loader.id, known, found, say)


def load_bases(
    file: VerifiedBundle, inputs: BundledInputs, connect: Callable[[], Engine], say: Say, shown: Callable[[str], Shown]
) -> int:
    """Load only the base images of inputs; returns the number of new ones. Without an engine they are skipped."""
    names = {carried_name(digest) for digest in inputs.bases}
    if not names:
        return 0
    try:
        engine = connect()
    except EngineError as error:
        say(f"{len(names)} base images are not loaded: {error.message}; repeat the import where an engine runs")
        return 0
    store, found = ImageStore.of(engine), Loaded()
    for image in file.bundle.images:
        if image.name in names:
            before = engine.image(image.name)
            _load(file, image, store, "", {before["Id"]} if before else set(), found, say, shown)
    return len(found.new)


def _moved(
    files: Sequence[VerifiedBundle], before: Mapping[str, dict[str, Any] | None], store: ImageStore, say: Say
) -> list[str]:
    """The names that belong to other images. Reports bundles with new images that are not signed."""
    other = {name: True for name, image in before.items() if image}
    for file in files:
        new = False
        for image in file.bundle.images:
            found = before[image.name]
            if found and _is_image(file, image, store, found):
                other[image.name] = False
            else:
                new = True
        if new and SIGNATURE not in file.bundle.signed:
            say(f"{file.bundle.path.name} is not signed: its maker is unknown")
    return [name for name, moved in other.items() if moved]


def _is_image(file: VerifiedBundle, image: Image, store: ImageStore, found: dict[str, Any]) -> bool:
    """Whether an image that the engine describes is the bundle's."""
    return layers_of(found) == image.diff_ids and found["Id"] == store.form.id_of(as_stored(file, image, store))


def _need_layers(files: Sequence[VerifiedBundle], store: ImageStore) -> None:
    coming = LayerChains()
    for file in files:
        for image in file.bundle.images:
            ids = image.diff_ids
            present = max(store.chains.present(ids), coming.present(ids))
            if missing := [layer.diff_id for layer in image.layers[present:] if layer.blob is None]:
                raise UsageError(
                    f"{image.name}: the bundle excludes {len(missing)} of its {len(ids)} layers, which the engine does "
                    f"not have ({missing[0][:19]} for example)",
                    file.bundle.where,
                    "load the bundle that it was made against first, or export it again without --since and --for",
                )
            coming.add(ids)


def _space(files: Sequence[VerifiedBundle], store: ImageStore) -> int:
    """The bytes that the engine needs for new layers, and meanwhile for their copies."""
    new: dict[Chain, int] = {}
    for file in files:
        for image in file.bundle.images:
            for n in range(store.chains.present(image.diff_ids), len(image.layers)):
                layer = image.layers[n]
                packed = layer.blob.size if layer.blob and not store.form.plain else 0
                new[image.diff_ids[: n + 1]] = file.sizes.get(layer.diff_id, 0) + packed
    return sum(new.values()) + min(sum(new.values()), 2 * STEP)


def _name(engine: Engine, image: Image, image_id: str, known: set[str], found: Loaded, say: Say) -> None:
    """Tag the image. Asks again if the name belongs by now to an image that the user was not asked about."""
    before = engine.image(image.name)
    if before and before["Id"] == image_id:
        found.present.append(image.name)
        return
    if before:
        consent.require(f"there is another image called {image.name} by now", "--replace", before["Id"] in known)
        say(f"{image.name} moved; it pointed to {before['Id']}")
    repository, _, tag = image.name.rpartition(":")
    engine.tag(image_id, repository, tag)
    known.add(image_id)
    found.new.append(image.name)
