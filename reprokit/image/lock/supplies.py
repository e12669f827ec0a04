"""Fetch the inputs of a lock: files and commits into the store, the base onto the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.image.base.resolve import BaseImage, check_base, locked_base, successor_base
from reprokit.image.inputs import Inputs
from reprokit.image.render import Rendered
from reprokit.supply.fetch.pool import Fetched, FetchFailed, fetch_all
from reprokit.supply.fetch.progress import Progress
from reprokit.supply.kinds import kinds
from reprokit.supply.kinds.apt.drift import drifts, dropped
from reprokit.supply.kinds.apt.resolve import lock_apt
from reprokit.supply.kinds.kind import Tools
from reprokit.supply.lock.model import AptPackage, Base, VariantLock
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store


@dataclass(frozen=True)
class Supplier:
    """Fetches inputs of locks, without network if `offline`. `on_progress` gets the progress of downloads."""

    store: Store
    mirrors: Mirrors
    on_progress: Callable[[Progress], None] = lambda progress: None
    offline: bool = False

    def files(self, inputs: list[LockedInput]) -> Fetched:
        """Fetch these files. Raises FetchFailed, EngineError."""
        return fetch_all(inputs, self.mirrors, self.on_progress, self.offline)

    def commits(self, lock: VariantLock) -> int:
        """Fetch everything of a lock that is no file; returns how many were missing. Raises SourceError."""
        return sum(kind.fetch(getattr(lock, kind.name), self, self.offline) for kind in kinds())

    def base(self, engine: Engine, lock: VariantLock) -> BaseImage:
        """Put the base onto the engine; the files of a bootstrap are in the store. Raises SourceError, EngineError."""
        return locked_base(engine, lock.base, self.store, self.offline)

    def image(self, engine: Engine, base: Base) -> BaseImage:
        """Put one base, such as the image of a service, onto the engine, and before it what it is made of."""
        self.files(base.locked_inputs())
        return locked_base(engine, base, self.store, self.offline)

    def inputs(self, engine: Engine, label: str, rendered: Rendered, lock: VariantLock, drift: bool) -> Inputs:
        """All inputs of a build of the variant `label`, its base on the engine.

        If no mirror has an apt package any more, today's packages replace the locked ones with `drift`; without, that
        is an error.
        """
        check_base(engine, lock.base)
        now: VariantLock = lock
        drifted: tuple[str, ...] = ()
        try:
            self.files(lock.locked_inputs())
        except FetchFailed as failed:
            gone = _gone(lock, failed)
            if not gone:
                raise
            if not drift:
                raise dropped(gone, label) from None
            now, drifted = self.drifted(engine, lock, rendered)
        self.commits(now)
        served = ServedSet(rendered.sets, **{kind.name: getattr(now, kind.name) for kind in kinds()})
        return Inputs(rendered, self.base(engine, now), served, lock, drifted)

    def drifted(self, engine: Engine, lock: VariantLock, rendered: Rendered) -> tuple[VariantLock, tuple[str, ...]]:
        """The lock with today's apt packages, fetched, and the differences."""
        base, of_the_base = successor_base(lock.base, self.store)
        now = lock.model_copy(update={"base": base})
        self.files(now.base.locked_inputs())
        here = self.base(engine, now)
        # All packages are resolved again, as a newer one may need newer dependencies.
        apt, as_of = lock_apt(rendered.installs, Tools(self.mirrors, engine, lambda: here))
        now = now.model_copy(update={"apt": apt, "apt_as_of": as_of})
        self.files(now.locked_inputs())
        drift = (*of_the_base, *drifts(lock.apt, apt))
        notify(f"drifted from the lock: {', '.join(drift)}")
        return now, drift


def _gone(lock: VariantLock, failed: FetchFailed) -> list[AptPackage]:
    """The apt packages that a mirror has dropped and no other gave. Other mirrors may have failed for other reasons."""
    missing = {f.locked.sha256 for f in failed.failures if any(refusal.gone for refusal in f.refusals.values())}
    bootstrap = lock.base.bootstrap.packages if lock.base.bootstrap else ()
    return [package for package in (*bootstrap, *lock.apt) if package.sha256 in missing]
