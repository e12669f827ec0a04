"""Fetch the inputs of a lock: files and commits into the store, the base onto the engine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.image.base.resolve import BaseImage, check_base, locked_base, successor_base
from reprokit.image.inputs import Inputs
from reprokit.image.lock.read import fresh_data, needed_lock
from reprokit.image.render import Rendered
from reprokit.recipe.find import Target
from reprokit.supply.fetch.pool import Fetched, FetchFailed, fetch_all, import_files
from reprokit.supply.fetch.progress import FetchDisplay, Progress
from reprokit.supply.kinds import all_kinds
from reprokit.supply.kinds.apt.install import drifts, dropped
from reprokit.supply.kinds.apt.resolve import lock_apt
from reprokit.supply.kinds.kind import Tools
from reprokit.supply.lock.file import complete, lock_path
from reprokit.supply.lock.model import AptPackage, Base, VariantLock
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store


def fetched(inputs: Sequence[LockedInput]) -> Store:
    """The store, with these files in it. Raises FetchFailed, EngineError."""
    store = Store()
    with FetchDisplay(sys.stderr) as shown:
        fetch_all(inputs, Mirrors(store), shown.on_progress)
    return store


@dataclass(frozen=True)
class Supplier:
    """Fetches inputs of locks, without network if `offline`. `on_progress` gets the progress of downloads."""

    mirrors: Mirrors
    on_progress: Callable[[Progress], None] = lambda progress: None
    offline: bool = False

    def files(self, inputs: list[LockedInput]) -> Fetched:
        """Fetch these files. Raises FetchFailed, EngineError."""
        return fetch_all(inputs, self.mirrors, self.on_progress, self.offline)

    def commits(self, lock: VariantLock) -> int:
        """Fetch the inputs of a lock that are not files; returns how many were missing. Raises SourceError."""
        return sum(kind.fetch(getattr(lock, kind.name), self.mirrors, self.offline) for kind in all_kinds())

    def base(self, engine: Engine, base: Base) -> BaseImage:
        """Put a base onto the engine, and its packages into the store. Raises SourceError, EngineError."""
        self.files(base.locked_inputs())
        return locked_base(engine, base, self.mirrors.store, self.offline)

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
            if not (packages := _dropped_packages(lock, failed)):
                raise
            if not drift:
                raise dropped(packages, label) from None
            now, drifted = self.drifted(engine, lock, rendered)
        self.commits(now)
        served = ServedSet(rendered.sets, **{kind.name: getattr(now, kind.name) for kind in all_kinds()})
        return Inputs(rendered, self.base(engine, now.base), served, lock, drifted)

    def drifted(self, engine: Engine, lock: VariantLock, rendered: Rendered) -> tuple[VariantLock, tuple[str, ...]]:
        """The lock with today's apt packages, fetched, and the differences."""
        base, of_the_base = successor_base(lock.base, self.mirrors.store)
        now = lock.model_copy(update={"base": base})
        image = self.base(engine, base)
        # All packages are resolved again, as a newer one may need newer dependencies.
        apt, as_of = lock_apt(rendered.installs, Tools(self.mirrors, engine, lambda: image))
        now = now.model_copy(update={"apt": apt, "apt_as_of": as_of})
        self.files(now.locked_inputs())
        drift = (*of_the_base, *drifts(lock.apt, apt))
        notify(f"drifted from the lock: {', '.join(drift)}")
        return now, drift


def _dropped_packages(lock: VariantLock, failed: FetchFailed) -> list[AptPackage]:
    """The apt packages that a mirror has dropped and no other served. Other mirrors may have failed otherwise."""
    missing = {f.locked.sha256 for f in failed.failures if any(refusal.gone for refusal in f.refusals.values())}
    bootstrap = lock.base.bootstrap.packages if lock.base.bootstrap else ()
    return [package for package in (*bootstrap, *lock.apt) if package.sha256 in missing]


def fetch(targets: Sequence[Target], source: Path | None = None, data: bool = False) -> tuple[Fetched, int]:
    """Fetch everything that the locks of these variants name, and their bases if there is an engine.

    First files of the folder `source` are copied; `data` also fetches the data of benchmarks. Returns the files, and
    how many git commits were missing. Raises UsageError without a lock, WorkFailed, SourceError, EngineError.
    """
    locks = [needed_lock(target) for target in targets]
    inputs = [locked for lock in locks for locked in lock.locked_inputs()]
    if data:
        inputs += [file.locked_input() for target in targets for file in fresh_data(target)]
    store = Store()
    mirrors = Mirrors(store, indexes=[i for target in targets for i in target.variant.wheel_indexes])
    for target in targets:
        store.used(lock_path(target.path))
    engine, absent = None, ""
    try:
        engine = Engine.connect()
    except EngineError as error:
        absent = error.message
    if source:
        notify(f"{import_files(source, inputs, store)} files copied from {source}")
    with FetchDisplay(sys.stderr) as shown:
        supplier = Supplier(mirrors, shown.on_progress)
        files = supplier.files(inputs)
        commits = sum(supplier.commits(lock) for lock in locks)
        if engine:
            for lock in locks:
                supplier.base(engine, lock.base)
    if data:
        for target in targets:
            complete(lock_path(target.path), store)
    if engine is None and any(lock.base.digest for lock in locks):
        notify(f"base images are not fetched: {absent}")
    return files, commits
