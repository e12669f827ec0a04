"""The base image of a build: from the engine, a registry or a mirror, or bootstrapped from packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from filelock import FileLock

from reprokit import paths
from reprokit.engine import OWN_IMAGES, Engine
from reprokit.errors import SourceError
from reprokit.image.base import bootstrap, packages, registries
from reprokit.image.base.bootstrap import name_of
from reprokit.image.base.release import Release, release_of
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store

_REGISTRY_TIMEOUT_S = 20


@dataclass(frozen=True)
class BaseImage:
    """The image that a build starts from.

    `name` is its name in the engine, `digest` the registry's (empty if it came from none), `how` one of `engine`,
    `registry`, `mirror HOST`, `bootstrapped`; `archives` are the hosts that a bootstrapped one came from.
    """

    reference: str
    name: str
    image_id: str
    how: str
    digest: str = ""
    architecture: str = "amd64"
    archives: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """One line for the user."""
        if self.how == "bootstrapped":
            return (
                f"{self.reference}: bootstrapped from the distribution's packages ({self.name}), not the vendor's image"
            )
        where = {"engine": "on the engine", "registry": "from its registry"}.get(self.how, f"from the {self.how}")
        return f"{self.reference}: {where} ({self.digest or self.image_id})"


def resolve_base(engine: Engine, reference: str, say: Callable[[str], None] = lambda line: None) -> BaseImage:
    """Make the engine have the base image of a recipe's reference.

    Raises SourceError with everything that was tried if no registry has it and it cannot be bootstrapped.
    """
    release = release_of(reference)
    found = on_engine(engine, reference)
    if found is None and release and (image := engine.image(name_of(release))):
        found = described(reference, name_of(release), image, "bootstrapped")
    if found:
        return found
    tried: list[str] = []
    return pulled(engine, reference, tried, say) or _bootstrapped(engine, reference, tried, say)


def on_engine(engine: Engine, reference: str) -> BaseImage | None:
    """The image that the engine has under this name and digest, if any."""
    plain, _, digest = reference.partition("@")
    # The engine knows an image as name:tag or as name@digest, not by both together. An image from a mirror has its
    # digest under the mirror's name only.
    for name in ([f"{_repository(plain)}@{digest}"] if digest else []) + [plain]:
        image = engine.image(name)
        digests = [d.partition("@")[2] for d in (image or {}).get("RepoDigests") or []]
        if image and (not digest or digest in digests):
            return described(reference, name, image, "engine", digest or next(iter(digests), ""))
    if digest and (image := engine.image(carried_name(digest))):
        return described(reference, carried_name(digest), image, "engine", digest)
    return None


def carried_name(digest: str) -> str:
    """The name of a base that was imported from an archive, for which the engine knows no digest."""
    return f"{OWN_IMAGES}/base:{digest.replace(':', '-')}"


def pulled(engine: Engine, reference: str, tried: list[str], say: Callable[[str], None]) -> BaseImage | None:
    """Pull the image from its registry or a mirror; None if all fail, with their errors in `tried`."""
    for place, name in registries.places(reference):
        try:
            with registries.noted(name):
                digest = reference.partition("@")[2] or engine.registry_digest(name, _REGISTRY_TIMEOUT_S)
                say(f"pulling {name} ({digest[:19]})")
                fetched = f"{_repository(name.partition('@')[0])}@{digest}"
                _pull(engine, fetched, say)
            return _keep(engine, reference, fetched, place, digest)
        except SourceError as error:
            tried.append(f"{name}: {error.message}")
    return None


def published_digest(engine: Engine, reference: str, tried: list[str]) -> str | None:
    """The digest of a reference in its registry or a mirror; None if all fail, with their errors in `tried`."""
    for _, name in registries.places(reference):
        try:
            with registries.noted(name):
                return engine.registry_digest(name, _REGISTRY_TIMEOUT_S)
        except SourceError as error:
            tried.append(f"{name}: {error.message}")
    return None


def not_served(reference: str, tried: list[str]) -> SourceError:
    return SourceError(
        f"no registry has the base image {reference}\n  " + "\n  ".join(tried),
        "",
        _nearest(reference) or "name a mirror that has it: REPROKIT_REGISTRY_MIRRORS=HOST[:PORT][/PREFIX],...",
    )


def made(engine: Engine, name: str, make: Callable[[], str]) -> dict[str, Any]:
    """The image called `name`; if the engine has none, `make` makes it and returns its ID."""
    folder = paths.private(paths.home() / "locks")
    # Two builds may need it at the same time.
    with FileLock(folder / f"{name.replace('/', '-').replace(':', '-')}.lock"):
        image = engine.image(name) or engine.image(make())
    assert image is not None
    return image


def described(reference: str, name: str, image: dict, how: str, digest: str = "") -> BaseImage:
    """An image of the engine as a base."""
    labels = (image.get("Config") or {}).get("Labels") or {}
    archives = tuple(filter(None, labels.get(bootstrap.ARCHIVES, "").split(",")))
    return BaseImage(reference, name, image["Id"], how, digest, image.get("Architecture") or "amd64", archives)


def _bootstrapped(engine: Engine, reference: str, tried: list[str], say: Callable[[str], None]) -> BaseImage:
    release = release_of(reference)
    if release is None:
        raise not_served(reference, tried)
    say(f"no registry has {reference} ({tried[0].partition(': ')[2]}); bootstrapping {release.name} from packages")
    name = name_of(release)
    image = made(engine, name, lambda: _of_today(engine, release, name, say))
    return described(reference, name, image, "bootstrapped")


def _of_today(engine: Engine, release: Release, name: str, say: Callable[[str], None]) -> str:
    """Make the base from today's packages, as if it had just been locked; returns its ID."""
    store = Store()
    mirrors = Mirrors(store)
    with store.in_use(say):
        locked = packages.resolve(release, store, say)
        inputs = [package.locked_input(locked.as_of) for package in locked.packages]
        fetch_all(inputs, store, mirrors, say=say, settings=lambda: mirrors.settings)

        def make() -> str:
            return bootstrap.bootstrap(engine, of_lock, release, locked, store, say)

        # A lock of the same packages finds it by the name with their key.
        of_lock = name_of(release, locked)
        image_id = made(engine, of_lock, make)["Id"]
    engine.tag(image_id, *name.rsplit(":", 1))
    return image_id


def _keep(engine: Engine, reference: str, fetched: str, place: str, digest: str) -> BaseImage:
    """Give a pulled image the recipe's name for it, or one of our own if another image has that name."""
    plain = reference.partition("@")[0]
    repository, tag = _repository(plain), plain[len(_repository(plain)) + 1 :] or "latest"
    image, other = engine.image(fetched), engine.image(f"{repository}:{tag}")
    assert image is not None
    if other and other["Id"] != image["Id"]:
        repository, _, tag = carried_name(digest).rpartition(":")
    engine.tag(fetched, repository, tag)
    return described(reference, f"{repository}:{tag}", image, place, digest)


def _repository(plain: str) -> str:
    """`host:5000/name:tag` without its tag."""
    head, colon, tail = plain.rpartition(":")
    return head if colon and "/" not in tail else plain


def _pull(engine: Engine, reference: str, say: Callable[[str], None]) -> None:
    done = 0
    for event in engine.pull(reference):
        if event.get("status") in ("Pull complete", "Already exists"):
            done += 1
            say(f"pulled {done} layers")


def _nearest(reference: str) -> str:
    from reprokit.compat.base import nvidia_references, parse_base
    from reprokit.compat.facts import bundled
    from reprokit.recipe.spelling import nearest

    base = parse_base(bundled(), reference)
    if base.kind != "nvidia_cuda":
        return ""
    listed = nvidia_references(bundled(), base)
    return "" if reference in listed else f"{reference} is not listed{nearest(reference, listed)}"
