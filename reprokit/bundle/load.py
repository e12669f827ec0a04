"""Load bundles into an engine: verify all bytes first, move names last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from reprokit import consent
from reprokit.bundle import signature
from reprokit.bundle.model import METADATA, SIGNATURE
from reprokit.bundle.read import Bundle, VerifiedBundle, opened, verify
from reprokit.display import notify, progress
from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.formatting import counted
from reprokit.host.fit import ImageNeeds, require_image
from reprokit.image import trust
from reprokit.image.base.resolve import carried, carried_name
from reprokit.image.labels import kind_of_name
from reprokit.oci.canonical import canonical_digest, canonical_digest_of
from reprokit.oci.loader import STEP, Loader, as_stored
from reprokit.oci.model import INDEX, Image
from reprokit.oci.store import Chain, Form, ImageStore, LayerChains


@dataclass
class Loaded:
    """Names of new images, and of those that were present."""

    new: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)


def checked(paths: Sequence[Path], stack: ExitStack) -> list[VerifiedBundle]:
    """Open and verify bundles; `stack` closes them. Raises UsageError naming the file and the damage."""
    bundles = [stack.enter_context(opened(path)) for path in paths]
    verified = []
    for bundle in bundles:
        with progress(f"checking {bundle.path.name}") as on_progress:
            verified.append(verify(bundle, on_progress))
    return verified


def signer(bundle: Bundle, allowed: Path | None) -> str:
    """The signer of a bundle, empty if it is not signed.

    Raises WorkFailed if the signature belongs to other content, or to none of the `allowed` keys.
    """
    if SIGNATURE not in bundle.signed:
        if allowed:
            raise WorkFailed("the bundle is not signed", bundle.where, "to load it unverified, leave out --signed-by")
        return ""
    # Checks the bytes that were read and used; the file may have changed since.
    text = signature.statement(bundle.signed[INDEX], bundle.signed[METADATA])
    return signature.verify(text, bundle.signed[SIGNATURE], allowed)


def check_origin(bundle: Bundle, allowed: Path | None, trusted: bool) -> None:
    """Check the signature and the names, and report the signer. Raises as `signer` and `check_names`."""
    trusted = trusted or allowed is not None
    if signature := signer(bundle, allowed):
        unknown = "" if trusted else ", which --signed-by does not name: images are unverified"
        notify(f"{bundle.path.name} is signed by {signature}{unknown}")
    check_names(bundle, trusted)


def check_names(bundle: Bundle, trusted: bool) -> None:
    """Raises UsageError for reserved names, and unless `trusted` also for bases and for images without a recipe."""
    if bases := _bases(bundle):
        # Nothing in the bundle proves that a registry has this image under the digest.
        consent.require(
            f"the bundle has {counted(len(bases), 'base image')} of its inputs, which builds start from",
            "--trust",
            trusted,
            bundle.where,
        )
    for image in bundle.images:
        kind = kind_of_name(image.name)
        if image.name in bases:
            continue
        if kind == "reserved":
            raise UsageError(f"{image.name!r} is a reserved name, which a bundle cannot use", bundle.where)
        if kind == "foreign":
            consent.require(
                f"the bundle has {image.name}, which is not a recipe's image", "--trust", trusted, bundle.where
            )


def load(
    files: Sequence[VerifiedBundle], engine: Engine, force: bool = False, replace: bool = False, trusted_by: str = ""
) -> Loaded:
    """Load the images of bundles into an engine, in order; each gets its name when it is complete.

    `force` loads images that this host cannot run, `replace` moves existing names. `trusted_by` is the reason to trust
    the images, empty if they are unverified.

    Raises UsageError if neither the bundles nor the engine have a layer, or if a name belongs to another image
    and the user does not agree to move it; EngineError if the disk is too small or the engine fails; WorkFailed
    if this host cannot run an image, without `force`.
    """
    gpus = engine.host.gpus()
    for described in (image for file in files for image in file.bundle.metadata.images):
        needs = ImageNeeds(described.pins, described.min_driver, described.compute_capabilities)
        require_image(described.name, needs, gpus, force)
    target = _Target(engine, trusted_by)
    images = [(file, image) for file in files for image in file.bundle.images]
    _need_layers(images, target.store)
    target.store.require_space(_space(images, target.store))
    same = [target.has(file, image) for file, image in images]
    for file in files:
        new = not all(present for (source, _), present in zip(images, same, strict=True) if source is file)
        if new and SIGNATURE not in file.bundle.signed:
            notify(f"{file.bundle.path.name} is not signed: its maker is unknown")
    kept = {image.name for (_, image), present in zip(images, same, strict=True) if present or target.same_files(image)}
    if replaced := [name for name, image_ids in target.accepted.items() if image_ids and name not in kept]:
        consent.require(f"there are other images called {', '.join(replaced)}", "--replace", replace)
    for file, image in images:
        target.load(file, image)
    return target.loaded


def load_bases(file: VerifiedBundle, connect: Callable[[], Engine]) -> int:
    """Load only the base images of the inputs, and trust them; returns the number of new ones.

    The caller must call `check_origin` first. A base that local builds already use is kept. Without an engine all are
    skipped.
    """
    names = _bases(file.bundle)
    if not names:
        return 0
    try:
        engine = connect()
    except EngineError as error:
        notify(f"{len(names)} base images are not loaded: {error.message}; repeat the import where an engine runs")
        return 0
    target = _Target(engine, "store import")
    for image in (image for image in file.bundle.images if image.name in names):
        if not target.has(file, image) and carried(engine, names[image.name]):
            notify(
                f"{image.name} is another image here and is kept; to replace it, `reprokit images revoke {image.name}` "
                "and repeat the import"
            )
        else:
            target.load(file, image)
    return len(target.loaded.new)


def _bases(bundle: Bundle) -> dict[str, str]:
    """The registry digests of the base images of a bundle's inputs, by the image's name."""
    inputs = bundle.metadata.inputs
    return {carried_name(digest): digest for digest in inputs.bases} if inputs else {}


class _Target:
    """The engine; `accepted` maps names to the image IDs that were loaded or confirmed by the user."""

    def __init__(self, engine: Engine, trusted_by: str) -> None:
        self._engine, self._trusted_by = engine, trusted_by
        self.store, self.loaded = ImageStore.of(engine), Loaded()
        self.accepted: dict[str, set[str]] = {}

    def has(self, file: VerifiedBundle, image: Image) -> bool:
        """Whether the image's name belongs to the bundle's image."""
        present = self._engine.image(image.name)
        self.accepted.setdefault(image.name, {present.id} if present else set())
        if present is None or present.layers != image.diff_ids:
            return False
        return present.id == self.store.form.id_of(as_stored(file, image, self.store))

    def same_files(self, image: Image) -> str:
        """The ID of the image with this name if it has the canonical digest of the bundle's image, else ""."""
        present = self._engine.image(image.name)
        digest = canonical_digest(image.diff_ids, image.settings)
        return present.id if present and digest and canonical_digest_of(present) == digest else ""

    def load(self, file: VerifiedBundle, image: Image) -> None:
        """Load the image and tag it, unless the name belongs to an image with the same canonical digest.

        Asks again if the name has moved to an image that the first question did not include.
        """
        image_id = "" if self.has(file, image) else self.same_files(image)
        if not image_id:
            with progress(f"loading {image.name}") as on_progress:
                loader = Loader(file, image, self.store, on_progress)
                loader.load()
            image_id = loader.id
        # The user has agreed to bases (`check_names`).
        if trusted_by := self._trusted_by or ("load" if image.name in _bases(file.bundle) else ""):
            trust.record(self._engine, image_id, "trusted", trusted_by)
        before, image_ids = self._engine.image_id(image.name), self.accepted[image.name]
        if before == image_id:
            self.loaded.present.append(image.name)
            return
        if before:
            consent.require(f"there is another image called {image.name} by now", "--replace", before in image_ids)
            notify(f"{image.name} moved; it pointed to {before}")
        repository, _, tag = image.name.rpartition(":")
        self._engine.tag(image_id, repository, tag)
        image_ids.add(image_id)
        self.loaded.new.append(image.name)


def _need_layers(images: Sequence[tuple[VerifiedBundle, Image]], store: ImageStore) -> None:
    coming = LayerChains()
    for file, image in images:
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


def _space(images: Sequence[tuple[VerifiedBundle, Image]], store: ImageStore) -> int:
    """The bytes that the engine needs for new layers and their temporary copies."""
    new: dict[Chain, int] = {}
    for file, image in images:
        for n in range(store.chains.present(image.diff_ids), len(image.layers)):
            layer = image.layers[n]
            packed = layer.blob.size if layer.blob and store.form is not Form.PLAIN else 0
            new[image.diff_ids[: n + 1]] = file.sizes.get(layer.diff_id, 0) + packed
    return sum(new.values()) + min(sum(new.values()), 2 * STEP)
