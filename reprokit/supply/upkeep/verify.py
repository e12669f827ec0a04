"""Verification of the store: hash every file and check every repository."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from reprokit.display import ByteProgress
from reprokit.supply.kinds.git.store import faults
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from reprokit.supply.upkeep import inventory
from reprokit.supply.upkeep.inventory import Stored

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Bad:
    """A damaged entry: `what` is its name for users, `why` the reason."""

    what: str
    path: Path
    why: str


@dataclass(frozen=True)
class Verified:
    """The checked entries, and the damaged ones."""

    files: int
    repositories: int
    size: int
    bad: tuple[Bad, ...]


def verify(store: Store, on_progress: ByteProgress = lambda done, total: None) -> Verified:
    """Check everything that is published; `on_progress` gets the bytes done and in total, one call at a time.

    Changes nothing. The caller holds `store.in_use()`.
    """
    files, repositories = inventory.files(store), inventory.repositories(store)
    total = sum(file.size for file in files) + sum(repository.size for repository in repositories)
    tally = _Tally(total, on_progress)
    stray = [Bad(path.name, path, "no file of the store") for path in inventory.strays(store)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            hashed = [pool.submit(_look_at_file, file, tally) for file in files]
            walked = [pool.submit(_look_at_repository, repository, tally) for repository in repositories]
            found = [future.result() for future in (*hashed, *walked)]
        except BaseException:
            tally.stopped = True
            pool.shutdown(cancel_futures=True)
            raise
    bad = [each for each in found if each]
    return Verified(len(files), len(repositories), total, (*stray, *bad))


def repair(store: Store, bad: tuple[Bad, ...]) -> None:
    """Remove damaged entries, so that the next fetch downloads them. The caller has the store `alone()`."""
    trash = store.root / "tmp"
    trash.mkdir(parents=True, exist_ok=True)
    for each in bad:
        remove(each.path, trash)


def remove(path: Path, trash: Path) -> None:
    """Remove a file or folder so that it is complete or gone after an interruption."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    aside = trash / f"removed-{path.name}"
    if aside.exists():
        shutil.rmtree(aside)
    path.replace(aside)
    shutil.rmtree(aside)


class _Tally:
    """Counts bytes for several threads."""

    def __init__(self, total: int, on_progress: ByteProgress) -> None:
        self.done, self.total, self.on_progress = 0, total, on_progress
        self.stopped = False
        self.lock = threading.Lock()

    def add(self, count: int) -> None:
        with self.lock:
            self.done += count
            self.on_progress(self.done, self.total)


def _look_at_file(file: Stored, tally: _Tally) -> Bad | None:
    digest = hashlib.sha256()
    name = file.path.name
    try:
        if file.path.is_symlink() or not file.path.is_file():
            return Bad(name, file.path, "no plain file")
        with file.path.open("rb") as opened:
            while not tally.stopped and (block := opened.read(_BLOCK)):
                digest.update(block)
                tally.add(len(block))
    except OSError as error:
        return Bad(name, file.path, f"cannot be read: {error.strerror}")
    got = digest.hexdigest()
    return None if got == name else Bad(name, file.path, f"its {file.size} bytes hash to {got}")


def _look_at_repository(repository: Stored, tally: _Tally) -> Bad | None:
    assert isinstance(repository.key, Commit)
    why = faults(repository.path, repository.key.commit)
    tally.add(repository.size)
    return Bad(f"{repository.key.name} at {repository.key.commit}", repository.path, why) if why else None
