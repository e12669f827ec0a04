"""Images to and from a registry, moved by the engine, with the credentials that Docker's own configuration names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from reprokit import consent, paths
from reprokit.bundle.model import digest_of
from reprokit.engine import LABEL, Engine
from reprokit.errors import ReprokitError, SourceError, UsageError, WorkFailed
from reprokit.filelocks import file_lock
from reprokit.host.fit import ImageNeeds, require_image
from reprokit.image import trust
from reprokit.image.freshness import freshness
from reprokit.image.labels import kind_of_name
from reprokit.nodes.anchor import Anchor
from reprokit.nodes.peek import Seen, peek
from reprokit.nodes.published import Published
from reprokit.nodes.transfer import Transfer
from reprokit.recipe.find import Target

Say = Callable[[str], None]
Watch = Callable[[int, int], None]

# What the engine and registries say (moby's and distribution's own words), and the remedy.
_HINTS = (
    (r"^Not Found$", "podman does not ask for a name's digest: pull NAME@sha256:..., as `reprokit push` prints it"),
    (r"unauthorized|denied|no basic auth|authentication required|incorrect username", "log in: docker login {host}"),
    (
        r"HTTP response to HTTPS client",
        'it has no TLS: {{"insecure-registries": ["{host}"]}} in daemon.json lets it in',
    ),
    (r"manifest unknown|not found|name unknown|does not exist", "what is in a registry was put there: reprokit push"),
    (
        r"refused|no such host|timeout|no route|unreachable|EOF|no answer",
        "the engine asks: can it reach {host}?",
    ),
)


@dataclass(frozen=True)
class Moved:
    """`name` is what the engine calls it now, `digest` the registry's; `said` what moved, "" where nothing had to."""

    name: str
    digest: str
    said: str = ""


def push(engine: Engine, wanted: Published, target: Target | None, say: Say, watch: Watch) -> Moved:
    """Put the image of a recipe into a registry; layers that are there are not sent again.

    `target` is the recipe where it is known here. Raises UsageError where the image has not been built, SourceError.
    """
    label = f"{wanted.recipe}:{wanted.variant}"
    image = engine.image(f"reprokit/{label}")
    if image is None:
        raise UsageError(f"{label} has not been built", hint=f"reprokit build {label}")
    if target and freshness(target, _labels(image)) == "other inputs":
        say(f"this image of {label} is older than its lock: `reprokit build {label}` would build it anew")
    transfer = Transfer(watch)
    with _one_at_a_time(engine, f"push {wanted.named}", say), _explained(wanted), _named(engine, image["Id"], wanted):
        for event in engine.push(wanted.repository, wanted.variant):
            transfer.take(event)
    if not transfer.digest:
        raise SourceError("the registry took the image and did not tell its digest", wanted.named)
    return Moved(wanted.named, transfer.digest, transfer.described("sent"))


def pull(
    engine: Engine,
    wanted: Published,
    target: Target | None,
    replace: bool,
    say: Say,
    shown: Callable[[], AbstractContextManager[Watch]],
) -> Moved:
    """Take a recipe's image from a registry under the name that reprokit knows it by.

    Of many at once that want the same one pulls and the others wait; what is there already is found without a lock,
    and, by digest, without the registry. Raises WorkFailed where it is not what was asked for, UsageError where the
    name is another image's and the user does not agree to move it, and then gives it no name; SourceError.
    """
    with _explained(wanted):
        digest = wanted.digest or engine.registry_digest(wanted.named)
    name = f"{wanted.repository}@{digest}"
    image, said = engine.image(name), ""
    movable: set[str] = set()
    if image is None:
        with _one_at_a_time(engine, f"pull {digest}", say), _explained(wanted):
            image = engine.image(name)
            if image is None:
                if seen := peek(engine, wanted, digest):
                    # What the registry tells beforehand is looked at before anything is moved.
                    coming = {digest, digest_of(seen.config)}
                    _agree(engine, _as_asked(wanted, target, seen.labels), coming, movable, replace)
                with shown() as watch:
                    said = _fetched(engine, seen, name, watch)
                image = engine.image(name)
    if image is None:
        raise WorkFailed("the engine pulled it and does not have it", name)
    try:
        ours = _as_asked(wanted, target, _labels(image))
        _agree(engine, ours, {image["Id"]}, movable, replace)
    except (WorkFailed, UsageError):
        if said:  # nothing of what was refused stays
            with suppress(ReprokitError):
                engine.remove_image(name)
        raise
    engine.tag(name, *ours.split(":"))
    if notice := trust.notice(image["Id"], ours.removeprefix("reprokit/")):
        say(notice)
    # The image is loaded already, and may be for other hosts, so no finding is an error.
    require_image(ours, ImageNeeds.of_labels(_labels(image)), engine.host.gpus(), True, say)
    return Moved(ours, digest, said)


def _agree(engine: Engine, name: str, coming: Collection[str], movable: set[str], replace: bool) -> None:
    """Ask before `name` moves to another image than it has, once. Raises UsageError."""
    before = engine.image(name)
    if before and before["Id"] not in {*coming, *movable}:
        consent.require(f"there is another image called {name}", "--replace", replace)
        movable.add(before["Id"])


def _fetched(engine: Engine, seen: Seen | None, name: str, watch: Watch) -> str:
    transfer, anchor = Transfer(watch), Anchor(engine, seen)
    for event in engine.pull(name):
        transfer.take(event)
        anchor.take(event)
    anchor.drop()
    return transfer.described("pulled")


def _as_asked(wanted: Published, target: Target | None, labels: Mapping[str, str]) -> str:
    """reprokit's name of the image. Raises WorkFailed where its labels say that it is another than was asked for.

    A name in a registry says nothing of what it stands for; a digest does, and is taken even where the lock here has
    moved on.
    """
    recipe, variant = labels.get(f"{LABEL}.recipe", ""), labels.get(f"{LABEL}.variant", "")
    if not recipe or not variant:
        raise WorkFailed("this is no image of reprokit's: it has none of its labels", wanted.repository)
    if kind_of_name(f"reprokit/{recipe}:{variant}") != "recipe":
        raise WorkFailed(f"its labels name {recipe}:{variant}, which no recipe can be called", wanted.repository)
    if recipe != wanted.recipe or variant != (wanted.variant or variant):
        raise WorkFailed(f"the registry has {recipe}:{variant} under this name", wanted.named)
    if target and not wanted.digest and freshness(target, labels) == "other inputs":
        raise WorkFailed(
            f"the image there is built from other inputs than the lock of {target.label} names",
            wanted.named,
            f"pull it by its digest to have it all the same, or `reprokit build {target.label}`",
        )
    return f"reprokit/{recipe}:{variant}"


def _labels(image: Mapping[str, Any]) -> dict[str, str]:
    return (image.get("Config") or {}).get("Labels") or {}


@contextmanager
def _named(engine: Engine, image: str, wanted: Published) -> Iterator[None]:
    """The registry's name for an image while it is pushed: left on, it would keep an old image from going."""
    before = engine.image(wanted.named)
    engine.tag(image, wanted.repository, wanted.variant)
    try:
        yield
    finally:
        with suppress(ReprokitError):
            if before:
                engine.tag(before["Id"], wanted.repository, wanted.variant)
            else:
                engine.remove_image(wanted.named)


def _one_at_a_time(engine: Engine, work: str, say: Say) -> AbstractContextManager[None]:
    """One process of this user and this engine: the folder may be shared by nodes, which pull beside each other."""
    whose = str(engine.info().get("ID", ""))
    file = paths.home() / "locks" / (re.sub(r"[^A-Za-z0-9.]+", "-", f"{work}-{whose}") + ".lock")
    return file_lock(file, f"another reprokit is at it (`{work}`): waiting for it", say)


@contextmanager
def _explained(wanted: Published) -> Iterator[None]:
    try:
        yield
    except SourceError as error:
        hint = next((h for words, h in _HINTS if re.search(words, error.message)), "")
        raise SourceError(error.message, error.where, error.hint or hint.format(host=wanted.host)) from None
