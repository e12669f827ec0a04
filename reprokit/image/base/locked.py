"""The base image in a lock: locking it, and making the same base again."""

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
    """Lock a recipe's base: today's digest in its registry, or the packages of a bootstrap if no registry has it.

    The engine's own images are ignored, so that the lock does not depend on the machine. For an image of several
    architectures the digest is that of their index, which fixes the content of each. Raises SourceError with everything
    that was tried.
    """
    plain, _, digest = reference.partition("@")
    if digest:
        return Base(reference=reference, digest=digest)
    tried: list[str] = []
    if digest := bases.published_digest(engine, plain, tried) or "":
        return Base(reference=reference, digest=digest)
    release = release_of(reference)
    if release is None:
        raise bases.not_served(reference, tried)
    say(f"no registry has {reference} ({tried[0].partition(': ')[2]}); resolving the packages of {release.name}")
    return Base(reference=reference, bootstrap=packages.resolve(release, store, say))


def locked_base(engine: Engine, base: Base, store: Store, say: Say, offline: bool = False) -> bases.BaseImage:
    """Make the engine have the locked base.

    A bootstrap needs no network: its packages are in the store. With `offline` no image is pulled. Raises SourceError
    if the base is not available, EngineError if the host cannot bootstrap.
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
            hint="run `reprokit fetch` with a network, or import it with `reprokit store import`",
        )
    raise bases.not_served(reference, tried)


def moved_base(engine: Engine, base: Base, store: Store, say: Say) -> list[Moved]:
    """What changed upstream since the base was locked. Raises SourceError if no registry answers."""
    if base.bootstrap:
        now = packages.resolve(_release(base), store, say)
        return moved_packages("base", base.bootstrap.packages, {p.name: p.version for p in now.packages})
    tried: list[str] = []
    digest = bases.published_digest(engine, base.reference, tried)
    if digest is None and not any("manifest unknown" in reason for reason in tried):
        raise bases.not_served(base.reference, tried)
    if digest == base.digest:
        return []
    what: Literal["changed", "vanished"] = "changed" if digest else "vanished"
    return [Moved("base", base.reference, base.digest or "", digest or "", what)]


def successor_base(engine: Engine, base: Base, store: Store, say: Say) -> tuple[Base, tuple[Drift, ...]]:
    """A bootstrap of today's packages, to replace one whose packages no mirror has any more, and the differences.

    The packages that apt installs on it must be resolved again. An image by digest is returned unchanged.
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
        raise UsageError(f"the lock cannot bootstrap {base.reference}: it is not a known release", hint="reprokit lock")
    return release
