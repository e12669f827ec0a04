"""The base image in a lock: what it is locked as, and the same base on the engine again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from reprokit.engine import Engine
from reprokit.errors import SourceError, UsageError
from reprokit.image.base import packages
from reprokit.image.base import resolve as bases
from reprokit.image.base.bootstrap import bootstrap, name_of
from reprokit.image.base.release import Release, release_of
from reprokit.supply.kinds.apt.drift import Drift, drifts, moved_packages
from reprokit.supply.kinds.kind import Moved
from reprokit.supply.lock.model import Base, Bootstrap
from reprokit.supply.store import Store

Say = Callable[[str], None]


def lock_base(engine: Engine, reference: str, store: Store, say: Say) -> Base:
    """What a recipe's base is today: the registry's digest, else the packages that a bootstrap would be made of.

    What the engine happens to have has no say, so that the same world gives the same lock. The digest is the one that
    the tag names, for an image of several architectures that of their index: registries, mirrors and the engine know
    the image by it, and it pins each architecture's by content. Raises SourceError naming all that was tried.
    """
    plain, _, digest = reference.partition("@")
    if digest:
        return Base(reference=reference, digest=digest)
    tried: list[str] = []
    if digest := bases.published_digest(engine, plain, tried) or "":
        return Base(reference=reference, digest=digest)
    release = release_of(reference)
    if release is None:
        raise bases.nobody_serves(reference, tried)
    say(f"no registry serves {reference} ({tried[0].partition(': ')[2]}); resolving {release.name}")
    return Base(reference=reference, bootstrap=packages.resolve(release, store, say))


def locked_base(engine: Engine, base: Base, store: Store, say: Say, offline: bool = False) -> bases.BaseImage:
    """The locked base, on the engine afterwards.

    A bootstrap asks no network: its packages are in the store. `offline` keeps an image by digest from being pulled.
    Raises SourceError where it cannot be had, EngineError where the host cannot bootstrap.
    """
    if base.bootstrap:
        return _made(engine, base, base.bootstrap, store, say)
    reference = f"{base.reference.partition('@')[0]}@{base.digest}"
    tried: list[str] = []
    found = bases.on_engine(engine, reference) or (None if offline else bases.pulled(engine, reference, tried, say))
    if found:
        return found
    if offline:
        raise SourceError(
            f"the engine does not have the base image {reference}",
            hint="run `reprokit fetch` where its registry can be reached, or bring it with `reprokit store import`",
        )
    raise bases.nobody_serves(reference, tried)


def moved_base(engine: Engine, base: Base, store: Store, say: Say) -> list[Moved]:
    """What upstream no longer has as it was locked. Raises SourceError where nobody answers."""
    if base.bootstrap:
        now = packages.resolve(_release(base), store, say)
        return moved_packages("base", base.bootstrap.packages, {p.name: p.version for p in now.packages})
    tried: list[str] = []
    digest = bases.published_digest(engine, base.reference, tried)
    if digest is None and not any("manifest unknown" in reason for reason in tried):
        raise bases.nobody_serves(base.reference, tried)
    if digest == base.digest:
        return []
    what: Literal["changed", "vanished"] = "changed" if digest else "vanished"
    return [Moved("base", base.reference, base.digest or "", digest or "", what)]


def successor_base(engine: Engine, base: Base, store: Store, say: Say) -> tuple[Base, tuple[Drift, ...]]:
    """The bootstrap that takes the place of one of which packages are on no mirror any more, and the differences.

    What apt installs on it is to be resolved anew, too. An image by digest has no successor: it comes back as it is.
    """
    if base.bootstrap is None:
        return base, ()
    now = packages.resolve(_release(base), store, say)
    return base.model_copy(update={"bootstrap": now}), drifts(base.bootstrap.packages, now.packages)


def _made(engine: Engine, base: Base, locked: Bootstrap, store: Store, say: Say) -> bases.BaseImage:
    release = _release(base)
    name = name_of(release, locked)

    def make() -> str:
        say(f"bootstrapping {release.name} from {len(locked.packages)} locked packages")
        return bootstrap(engine, name, release, locked, store, say)

    return bases.described(base.reference, name, bases.made(engine, name, make), "bootstrapped")


def _release(base: Base) -> Release:
    release = release_of(base.reference)
    if release is None or base.bootstrap is None or base.bootstrap.suite != release.codename:
        raise UsageError(f"the lock bootstraps {base.reference}, which is no release that can be", hint="lock it again")
    return release
