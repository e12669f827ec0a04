"""What a lock names, brought to where a build takes it from: the store, and the engine for the base."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reprokit.engine import Engine
from reprokit.image.base.locked import locked_base, successor_base
from reprokit.image.base.resolve import BaseImage
from reprokit.image.inputs import Inputs
from reprokit.image.render import Rendered
from reprokit.supply.fetch.failure import FetchFailed
from reprokit.supply.fetch.pool import Fetched, fetch_all
from reprokit.supply.fetch.progress import Progress
from reprokit.supply.kinds.apt.drift import dropped
from reprokit.supply.kinds.apt.resolve import successors
from reprokit.supply.kinds.conda.solve import require_rattler
from reprokit.supply.kinds.git.fetch import fetch_git
from reprokit.supply.kinds.git.store import Commit
from reprokit.supply.kinds.wheels.platform import WheelSet
from reprokit.supply.lock.model import AptPackage, VariantLock
from reprokit.supply.locked_input import LockedInput, of_base, of_variant
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store


@dataclass(frozen=True)
class Supplier:
    """Brings what locks name. `offline` asks no network; `watch` is told how far the downloads are."""

    store: Store
    mirrors: Mirrors
    say: Callable[[str], None] = lambda line: None
    watch: Callable[[Progress], None] = lambda progress: None
    offline: bool = False

    def files(self, wants: list[LockedInput]) -> Fetched:
        """These files in the store. Raises FetchFailed, EngineError."""
        parallel = self.mirrors.configuration.fetch.parallel
        return fetch_all(
            wants,
            self.store,
            self.mirrors,
            self.watch,
            self.say,
            parallel,
            self.offline,
            settings=lambda: self.mirrors.settings,
        )

    def commits(self, lock: VariantLock) -> int:
        """Every commit of a lock in the store; how many were not there. Raises SourceError."""
        return fetch_git(lock.git, self.store, self.mirrors, self.say, self.offline)

    def base(self, engine: Engine, lock: VariantLock) -> BaseImage:
        """The base on the engine; the files of a bootstrapped one are in the store. Raises SourceError, EngineError."""
        return locked_base(engine, lock.base, self.store, self.say, self.offline)

    def inputs(self, engine: Engine, label: str, rendered: Rendered, lock: VariantLock, drift: bool) -> Inputs:
        """All that a build of the variant `label` takes in, its base on the engine.

        With `drift`, what is there now stands in for apt packages that no mirror has any more; without, they are an
        error that names the ways out.
        """
        if lock.conda:
            require_rattler()
        now: VariantLock = lock
        drifted: tuple[str, ...] = ()
        try:
            self.files(of_variant(lock))
        except FetchFailed as failed:
            gone = _gone(lock, failed)
            if not gone:
                raise
            if not drift:
                raise dropped(gone, label) from None
            now, drifted = self.drifted(engine, lock, rendered)
        self.commits(now)
        commits = tuple(Commit(c.url, c.commit) for c in now.git)
        offer = ServedSet(WheelSet(now.wheels), commits, now.apt, now.files, now.conda)
        return Inputs(rendered, self.base(engine, now), offer, lock, drifted)

    def drifted(self, engine: Engine, lock: VariantLock, rendered: Rendered) -> tuple[VariantLock, tuple[str, ...]]:
        """The lock with today's apt packages, all of them in the store, and the differences."""
        base, of_the_base = successor_base(engine, lock.base, self.store, self.say)
        now = lock.model_copy(update={"base": base})
        self.files(of_base(now.base))
        here = self.base(engine, now)
        apt, as_of, of_apt = successors(engine, here, rendered.installs, lock.apt, self.store, self.say)
        now = now.model_copy(update={"apt": apt, "apt_as_of": as_of})
        self.files(of_variant(now))
        drift = tuple(str(d) for d in (*of_the_base, *of_apt))
        self.say(f"drifted from the lock: {', '.join(drift)}")
        return now, drift


def _gone(lock: VariantLock, failed: FetchFailed) -> list[AptPackage]:
    """The apt packages that a mirror has dropped and no other gave. Not every public place answers everywhere."""
    missing = {f.want.sha256 for f in failed.failures if any(refusal.gone for refusal in f.refusals.values())}
    bootstrap = lock.base.bootstrap.packages if lock.base.bootstrap else ()
    return [package for package in (*bootstrap, *lock.apt) if package.sha256 in missing]
