"""Images pushed to and pulled from registries by the engine, with the credentials of Docker's configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace

from reprokit import consent, paths
from reprokit.display import ByteProgress, notify, progress
from reprokit.engine import Engine, ImageInfo, TransferEvent
from reprokit.errors import ReprokitError, SourceError, UsageError, WorkFailed
from reprokit.filelocks import file_lock
from reprokit.formatting import counted
from reprokit.host.fit import require_image
from reprokit.image import trust
from reprokit.image.base.registries import registry_of
from reprokit.image.labels import ImageLabels, kind_of_name
from reprokit.image.lock.read import freshness
from reprokit.recipe.find import Target, recipe_names
from reprokit.recipe.find import target as find_target
from reprokit.recipe.spelling import nearest

_SHAPE = "write REGISTRY/NAME[:VARIANT] or REGISTRY/NAME@sha256:..., for example registry.lab:5000/featgraph:cpu"
# The grammar of names: distribution's reference package.
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"(?P<repository>(?P<host>\[[0-9a-fA-F:]+\](?::\d+)?|[A-Za-z0-9.-]+(?::\d+)?)/(?:{_PART}/)*(?P<recipe>{_PART}))"
    r"(?::(?P<variant>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_PRESENT = ("Layer already exists", "Already exists")
# A containerd store has no event after the download.
_TRANSFERRED = ("Pushed", "Pull complete", "Download complete")
_PUSHED = re.compile(r"digest: (sha256:[0-9a-f]{64})")


@dataclass(frozen=True)
class ImageReference:
    """`repository` is `HOST[:PORT]/[PATH/]NAME`, whose last part is the recipe; `variant` and `digest` may be empty."""

    host: str
    repository: str
    recipe: str
    variant: str = ""
    digest: str = ""

    @property
    def named(self) -> str:
        """The reference with its variant, the registry's tag, if there is one."""
        return f"{self.repository}:{self.variant}" if self.variant else self.repository


def parse_reference(text: str) -> ImageReference:
    """`HOST[:PORT]/[PATH/]NAME[:VARIANT][@sha256:HEX]`. Raises UsageError."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not an image in a registry", hint=_SHAPE)
    parts = match.groupdict(default="")
    if parts["host"] != "docker.io" and registry_of(text) != parts["host"]:
        raise UsageError(f"{text!r} has no registry", hint=f"{_SHAPE}; for Docker Hub docker.io/{parts['repository']}")
    return ImageReference(**parts)


def of_recipe(text: str) -> tuple[ImageReference, Target | None]:
    """The reference with its variant, and the recipe if it exists locally. Raises UsageError.

    The default variant is the recipe's. The labels of an image by digest name its variant.
    """
    reference = parse_reference(text)
    label = f"{reference.recipe}:{reference.variant}" if reference.variant else reference.recipe
    if reference.recipe in recipe_names():
        target = find_target(label)
        return (reference if reference.digest else replace(reference, variant=target.variant_name)), target
    if not reference.variant and not reference.digest:
        raise UsageError(
            f"no recipe named {reference.recipe!r}; give the variant{nearest(label, recipe_names())}",
            text,
            f"write {text}:VARIANT",
        )
    return reference, None


class TransferProgress:
    """Sums the engine's events; `progress(done, total)` gets the bytes of the layers that have started."""

    def __init__(self, progress: ByteProgress) -> None:
        self._progress = progress
        self._layers: dict[str, tuple[int, int]] = {}
        self.present: set[str] = set()
        self.transferred: set[str] = set()
        self.digest = ""

    def update(self, event: TransferEvent) -> None:
        layer, status = event.layer, event.status
        if match := _PUSHED.search(status):
            self.digest = match[1]
        if status.startswith(_PRESENT):
            self.present.add(layer)
        elif status in _TRANSFERRED:
            self.transferred.add(layer)
        if status in ("Downloading", "Pushing") and event.done:
            # The engine only estimates the size of a layer that it compresses while sending.
            self._layers[layer] = event.done, max(event.done, event.total)
            self._progress(sum(d for d, _ in self._layers.values()), sum(t for _, t in self._layers.values()))

    def described(self, verb: str) -> str:
        """Text such as `2 layers pushed, 5 already present`."""
        return f"{counted(len(self.transferred), 'layer')} {verb}, {len(self.present)} already present"


# Error texts of the engine and of registries (moby, distribution), and the remedy.
_HINTS = (
    (r"^Not Found$", "podman cannot look up a digest: pull NAME@sha256:..., as `reprokit push` prints it"),
    (r"unauthorized|denied|no basic auth|authentication required|incorrect username", "log in: docker login {host}"),
    (
        r"HTTP response to HTTPS client",
        'allow a registry without TLS in daemon.json: {{"insecure-registries": ["{host}"]}}',
    ),
    (r"manifest unknown|not found|name unknown|does not exist", "push the image first: reprokit push"),
    (r"refused|no such host|timeout|no route|unreachable|EOF|no answer", "check that the engine can reach {host}"),
)


@dataclass(frozen=True)
class Transferred:
    """The image's `name` in the engine and `digest` in the registry, and a summary of the transfer, "" for none."""

    name: str
    digest: str
    summary: str = ""


def push(engine: Engine, reference: ImageReference, target: Target | None) -> Transferred:
    """Push the image of a recipe; layers that the registry has are not sent again.

    `target` is the recipe if it exists locally. Raises UsageError if the image has not been built, SourceError.
    """
    label = f"{reference.recipe}:{reference.variant}"
    image = engine.image(f"reprokit/{label}")
    if image is None:
        raise UsageError(f"{label} has not been built", hint=f"reprokit build {label}")
    try:
        if target and freshness(target, image.labels) == "other inputs":
            notify(f"this image of {label} is older than its lock; rebuild it with `reprokit build {label}`")
    except UsageError as error:
        notify(f"it is unknown whether this image of {label} is older than its lock: {error.message}")
    with (
        _one_at_a_time(engine, f"push {reference.named}"),
        _explained(reference),
        _named(engine, image.id, reference),
        progress(f"pushing {reference.named}") as on_progress,
    ):
        transfer = TransferProgress(on_progress)
        for event in engine.push(reference.repository, reference.variant):
            transfer.update(event)
    if not transfer.digest:
        raise SourceError("the registry did not report the image's digest", reference.named)
    return Transferred(reference.named, transfer.digest, transfer.described("sent"))


def pull(engine: Engine, reference: ImageReference, target: Target | None, replace: bool) -> Transferred:
    """Pull a recipe's image and give it reprokit's name.

    Concurrent pulls of one image wait for the first. A present image needs no lock, and by digest no registry. Raises
    WorkFailed if the image is not the requested one, UsageError if the name belongs to another image and the user
    does not agree to move it; the pulled image then gets no name. Raises SourceError.
    """
    with _explained(reference):
        digest = reference.digest or engine.registry_digest(reference.named)
    name = f"{reference.repository}@{digest}"
    image, summary = engine.image(name), ""
    if image is None:
        with _one_at_a_time(engine, f"pull {digest}"), _explained(reference):
            image = engine.image(name)
            if image is None:
                with progress(f"pulling {reference.named or reference.repository}") as on_progress:
                    transfer = TransferProgress(on_progress)
                    for event in engine.pull(name):
                        transfer.update(event)
                summary, image = transfer.described("pulled"), engine.image(name)
    if image is None:
        raise WorkFailed("the engine pulled the image but does not have it", name)
    try:
        _require_blobs(engine, image, name)
        ours = _requested_name(reference, target, image.labels)
        if engine.image_id(ours) not in ("", image.id):
            consent.require(f"there is another image called {ours}", "--replace", replace)
    except (WorkFailed, UsageError):
        if summary:  # a refused image is removed
            with suppress(ReprokitError):
                engine.remove_image(name)
        raise
    engine.tag(name, *ours.split(":"))
    if notice := trust.notice(image.id, ours.removeprefix("reprokit/")):
        notify(notice)
    # The image may be meant for other hosts: findings are reported, not errors.
    require_image(ours, ImageLabels.read(image.labels).needs, engine.host.gpus(), True)
    return Transferred(ours, digest, summary)


def _require_blobs(engine: Engine, image: ImageInfo, name: str) -> None:
    """Raises WorkFailed if a containerd store lacks blobs of the image, which then cannot be exported or pushed.

    Such a store does not pull the blob of a layer that it has unpacked from another blob (containerd `core/unpack`).
    """
    if engine.info().containerd and not engine.has_blobs(image.id):
        hint = "remove the images that share its layers (`docker rmi`), and pull it again"
        raise WorkFailed(
            "the engine has layers of the image in another compression, and did not pull its own", name, hint
        )


def _requested_name(reference: ImageReference, target: Target | None, labels: Mapping[str, str]) -> str:
    """reprokit's name of the image. Raises WorkFailed if its labels differ from the request.

    A tag in a registry can point to any image. A digest cannot, so it is accepted even if the local lock has changed.
    """
    named = ImageLabels.read(labels)
    recipe, variant = named.recipe, named.variant
    if not recipe or not variant:
        raise WorkFailed("not an image of reprokit: its labels are missing", reference.repository)
    if kind_of_name(f"reprokit/{recipe}:{variant}") != "recipe":
        raise WorkFailed(f"its labels name {recipe}:{variant}, which is not a valid recipe", reference.repository)
    if recipe != reference.recipe or variant != (reference.variant or variant):
        raise WorkFailed(f"the registry has another image, {recipe}:{variant}, under this name", reference.named)
    if target and not reference.digest and freshness(target, labels) == "other inputs":
        raise WorkFailed(
            f"the image was built from other inputs than the lock of {target.label} names",
            reference.named,
            f"pull it by its digest, or build it: `reprokit build {target.label}`",
        )
    return f"reprokit/{recipe}:{variant}"


@contextmanager
def _named(engine: Engine, image: str, reference: ImageReference) -> Iterator[None]:
    """Tag the image with the registry's name while it is pushed; a lasting tag would keep old images."""
    before = engine.image_id(reference.named)
    engine.tag(image, reference.repository, reference.variant)
    try:
        yield
    finally:
        with suppress(ReprokitError):
            if before:
                engine.tag(before, reference.repository, reference.variant)
            else:
                engine.remove_image(reference.named)


def _one_at_a_time(engine: Engine, work: str) -> AbstractContextManager[None]:
    """Lock this work for the user and the engine. Nodes that share the folder do not wait for each other."""
    file = paths.home() / "locks" / (re.sub(r"[^A-Za-z0-9.]+", "-", f"{work}-{engine.info().id}") + ".lock")
    return file_lock(file, f"another process does the same (`{work}`); waiting for it to end")


@contextmanager
def _explained(reference: ImageReference) -> Iterator[None]:
    try:
        yield
    except SourceError as error:
        hint = next((h for words, h in _HINTS if re.search(words, error.message)), "")
        raise SourceError(error.message, error.where, error.hint or hint.format(host=reference.host)) from None
