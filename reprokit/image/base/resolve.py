"""The base image of a build: from the engine, a registry or a mirror, or bootstrapped from packages.

A lock names its digest or packages, from which the same base can be made again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from reprokit.compat.base import nvidia_references, parse_base
from reprokit.compat.facts import bundled
from reprokit.display import notify
from reprokit.engine import OWN_IMAGES, Engine, ImageInfo
from reprokit.errors import SourceError, UsageError
from reprokit.formatting import counted
from reprokit.image import trust
from reprokit.image.base import bootstrap, mmdebstrap, registries
from reprokit.image.base.bootstrap import bootstrapped, name_of
from reprokit.image.base.release import Release, release_of
from reprokit.recipe.spelling import nearest
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.kinds.apt.install import changed_packages, drifts
from reprokit.supply.kinds.kind import UpstreamChange
from reprokit.supply.lock.model import Base
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store


@dataclass(frozen=True)
class BaseImage:
    """The image that a build starts from.

    `name` is its name in the engine, `digest` the registry's (empty if it came from none), `how` one of `engine`,
    `registry`, `mirror HOST`, `bootstrapped`; `archives` are the hosts of a bootstrapped base's packages.
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


def resolve_base(engine: Engine, reference: str) -> BaseImage:
    """Put the base image of a recipe's reference onto the engine.

    Raises SourceError with all attempts if no registry has it and it cannot be bootstrapped.
    """
    if present := on_engine(engine, reference):
        return present
    if (release := release_of(reference)) and (image := engine.image(name_of(release))):
        return described(reference, name_of(release), image, "bootstrapped")
    tried: list[str] = []
    return pulled(engine, reference, tried) or _of_today(engine, reference, tried)


def on_engine(engine: Engine, reference: str) -> BaseImage | None:
    """The image that the engine has under this name and digest, if any."""
    plain, _, digest = reference.partition("@")
    # The engine knows an image as name:tag or as name@digest, not by both together. An image from a mirror has its
    # digest under the mirror's name only.
    for name in ([f"{_repository(plain)}@{digest}"] if digest else []) + [plain]:
        image = engine.image(name)
        digests = _digests(image) if image else []
        if image and (not digest or digest in digests):
            return described(reference, name, image, "engine", digest or next(iter(digests), ""))
    if digest and (image := carried(engine, digest)):
        return described(reference, carried_name(digest), image, "engine", digest)
    return None


def carried(engine: Engine, digest: str) -> ImageInfo | None:
    """The image under the carried name of a digest, if the engine knows that digest or the user trusts the image.

    Anyone can give an image this name: `docker load` takes names from its archive.
    """
    image = engine.image(carried_name(digest))
    return image if image and (digest in _digests(image) or trust.is_trusted(image.id)) else None


def carried_name(digest: str) -> str:
    """The name of a base that was imported from an archive: the engine knows no digest for it."""
    return f"{OWN_IMAGES}/base:{digest.replace(':', '-')}"


def pulled(engine: Engine, reference: str, tried: list[str]) -> BaseImage | None:
    """Pull the image from its registry or a mirror; None if all fail, with their errors in `tried`."""

    def pull(place: str, name: str) -> BaseImage:
        digest = reference.partition("@")[2] or engine.registry_digest(name)
        notify(f"pulling {name} ({digest[:19]})")
        fetched = f"{_repository(name.partition('@')[0])}@{digest}"
        done = 0
        for event in engine.pull(fetched):
            if event.status in ("Pull complete", "Already exists"):
                done += 1
                notify(f"pulled {counted(done, 'layer')}")
        return _keep(engine, reference, fetched, place, digest)

    return registries.ask(reference, tried, pull)


def published_digest(engine: Engine, reference: str, tried: list[str]) -> str | None:
    """The digest of a reference in its registry or a mirror; None if all fail, with their errors in `tried`."""
    return registries.ask(reference, tried, lambda place, name: engine.registry_digest(name))


def not_served(reference: str, tried: list[str]) -> SourceError:
    return SourceError(
        f"no registry has the base image {reference}\n  " + "\n  ".join(tried),
        "",
        _nearest(reference) or "name a mirror that has it: REPROKIT_REGISTRY_MIRRORS=HOST[:PORT][/PREFIX],...",
    )


def described(reference: str, name: str, image: ImageInfo, how: str, digest: str = "") -> BaseImage:
    """An image of the engine as a base."""
    archives = tuple(filter(None, image.labels.get(bootstrap.ARCHIVES, "").split(",")))
    return BaseImage(reference, name, image.id, how, digest, image.architecture or "amd64", archives)


def _of_today(engine: Engine, reference: str, tried: list[str]) -> BaseImage:
    """Make the base from today's packages, as if it had just been locked: a lock of the same packages finds it."""
    release = release_of(reference)
    if release is None:
        raise not_served(reference, tried)
    notify(f"no registry has {reference} ({tried[0].partition(': ')[2]}); bootstrapping {release.name} from packages")
    store = Store()
    mirrors = Mirrors(store)
    with store.in_use():
        base = Base(reference=reference, bootstrap=mmdebstrap.resolve(release, store))
        fetch_all(base.locked_inputs(), mirrors)
        made = locked_base(engine, base, store)
    engine.tag(made.image_id, *name_of(release).rsplit(":", 1))
    return replace(made, name=name_of(release))


def _keep(engine: Engine, reference: str, fetched: str, place: str, digest: str) -> BaseImage:
    """Give a pulled image the recipe's name for it.

    It gets a name of reprokit's if another image has that name, or if recipe or lock state a digest: they may pair a
    well-known tag with the digest of another image.
    """
    plain = reference.partition("@")[0]
    repository, tag = _repository(plain), plain[len(_repository(plain)) + 1 :] or "latest"
    image, other = engine.image(fetched), engine.image(f"{repository}:{tag}")
    assert image is not None
    if "@" in reference or (other and other.id != image.id):
        repository, _, tag = carried_name(digest).rpartition(":")
    engine.tag(fetched, repository, tag)
    return described(reference, f"{repository}:{tag}", image, place, digest)


def _digests(image: ImageInfo) -> list[str]:
    return [name.partition("@")[2] for name in image.digests]


def _repository(plain: str) -> str:
    """`host:5000/name:tag` without its tag."""
    head, colon, tail = plain.rpartition(":")
    return head if colon and "/" not in tail else plain


def _nearest(reference: str) -> str:
    base = parse_base(bundled(), reference)
    if base.kind != "nvidia_cuda":
        return ""
    listed = nvidia_references(bundled(), base)
    return "" if reference in listed else f"{reference} is not listed{nearest(reference, listed)}"


def lock_base(engine: Engine, reference: str, store: Store) -> Base:
    """Lock a recipe's base: today's digest in its registry, or the packages of a bootstrap if no registry has it.

    The engine's own images are ignored, so that the lock does not depend on the machine. For an image of several
    architectures the digest is that of their index, which fixes the content of each. Raises SourceError with all
    attempts.
    """
    plain, _, digest = reference.partition("@")
    if digest:
        return Base(reference=reference, digest=digest)
    tried: list[str] = []
    if digest := published_digest(engine, plain, tried) or "":
        return Base(reference=reference, digest=digest)
    release = release_of(reference)
    if release is None:
        raise not_served(reference, tried)
    notify(f"no registry has {reference} ({tried[0].partition(': ')[2]}); resolving the packages of {release.name}")
    return Base(reference=reference, bootstrap=mmdebstrap.resolve(release, store))


def check_base(engine: Engine, base: Base) -> None:
    """Raises EngineError if the base must be bootstrapped and this host cannot."""
    if base.bootstrap and engine.image(name_of(_release(base), base.bootstrap)) is None:
        mmdebstrap.installed(_release(base))


def locked_base(engine: Engine, base: Base, store: Store, offline: bool = False) -> BaseImage:
    """Put the locked base onto the engine.

    A bootstrap needs no network: its packages are in the store. With `offline` no image is pulled. Raises SourceError
    if the base is not available, EngineError if the host cannot bootstrap.
    """
    if base.bootstrap:
        release = _release(base)
        image = bootstrapped(engine, release, base.bootstrap, store)
        return described(base.reference, name_of(release, base.bootstrap), image, "bootstrapped")
    reference = f"{base.reference.partition('@')[0]}@{base.digest}"
    tried: list[str] = []
    if base_image := on_engine(engine, reference) or (None if offline else pulled(engine, reference, tried)):
        return base_image
    if offline:
        raise SourceError(
            f"the engine does not have the base image {reference}",
            hint="run `reprokit fetch` with a network, or import it with `reprokit store import`",
        )
    raise not_served(reference, tried)


def moved_base(engine: Engine, base: Base, store: Store) -> list[UpstreamChange]:
    """What changed upstream since the base was locked. Raises SourceError if no registry answers."""
    if base.bootstrap:
        now = mmdebstrap.resolve(_release(base), store)
        return changed_packages("base", base.bootstrap.packages, {p.name: p.version for p in now.packages})
    tried: list[str] = []
    digest = published_digest(engine, base.reference, tried)
    if digest is None and not any("manifest unknown" in reason for reason in tried):
        raise not_served(base.reference, tried)
    if digest == base.digest:
        return []
    return [
        UpstreamChange("base", base.reference, base.digest or "", digest or "", "changed" if digest else "vanished")
    ]


def successor_base(base: Base, store: Store) -> tuple[Base, tuple[str, ...]]:
    """A bootstrap of today's packages, to replace one whose packages no mirror has any more, and the differences.

    The packages that apt installs on it must be resolved again. An image by digest is returned unchanged.
    """
    if base.bootstrap is None:
        return base, ()
    now = mmdebstrap.resolve(_release(base), store)
    return base.model_copy(update={"bootstrap": now}), drifts(base.bootstrap.packages, now.packages)


def _release(base: Base) -> Release:
    release = release_of(base.reference)
    if release is None or base.bootstrap is None or base.bootstrap.suite != release.codename:
        raise UsageError(f"the lock cannot bootstrap {base.reference}: it is not a known release", hint="reprokit lock")
    return release
