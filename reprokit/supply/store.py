"""The store: immutable files under their sha256, shared by all recipes."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

from reprokit import paths
from reprokit.errors import EngineError
from reprokit.filelocks import acquire, try_acquire
from reprokit.formatting import size
from reprokit.host.disk import STORE_HINT, is_full
from reprokit.supply.hosts import LostHosts

_BLOCK = 1 << 20
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


def sha256_of(path: Path) -> str:
    """The file's sha256 as 64 hex digits, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


class Store:
    """Files by content in `root/sha256/`, and remembered answers in `root/index/`.

    Published files never change: writers rename them into place. Hold `in_use()` while you rely on a file; only
    `reprokit store gc` and the like take the store `alone()`. `lost` are the hosts that this command could not reach.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or paths.home() / "store"
        self.lost = LostHosts()

    def path(self, sha256: str) -> Path:
        return self.root / "sha256" / sha256[:2] / sha256

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """A temporary folder on the store's file system, so that its files can be published by a rename."""
        folder = self.root / "tmp"
        with self.in_use():  # so that `alone()` proves that all scratch folders are leftovers
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                yield scratch

    def add(self, path: Path) -> str:
        """Move a file of `scratch()` into the store; returns its sha256."""
        sha256 = sha256_of(path)
        self.publish(path, sha256)
        return sha256

    def publish(self, path: Path, sha256: str) -> None:
        """`add` for a file whose sha256 is known."""
        published = self.path(sha256)
        if not published.exists():
            published.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as file:
                os.fsync(file.fileno())
            path.chmod(0o644)
            path.replace(published)
        else:
            path.unlink()

    def remembered(self, kind: str, key: str) -> Any:
        """The data that `remember` kept under this key, or None."""
        try:
            return json.loads((self.root / "index" / kind / f"{key}.json").read_text())
        except (OSError, ValueError):
            return None

    def remember(self, kind: str, key: str, value: Any) -> None:
        """Keep plain data under this key, unless the store is read-only."""
        folder = self.root / "index" / kind
        try:
            paths.private(self.root, shared=True)
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
                json.dump(value, file, indent=1, sort_keys=True)
            Path(file.name).replace(folder / f"{key}.json")
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise

    def used(self, lock: Path) -> None:
        """Remember a lock that is in use: `gc` keeps its files for as long as it exists."""
        path = str(lock.absolute())
        self.remember("locks", key_of(path), path)

    def used_locks(self) -> list[Path]:
        """The locks that were used and still exist, sorted."""
        remembered = (self.remembered("locks", file.stem) for file in (self.root / "index" / "locks").glob("*.json"))
        return sorted(path for text in remembered if isinstance(text, str) and (path := Path(text)).is_file())

    def in_use(self) -> AbstractContextManager[None]:
        """Prevent `gc` meanwhile. Any number of processes may hold it, each more than once."""
        return self._locked(fcntl.LOCK_SH, "waiting for `reprokit store gc` or `reprokit clean` to end")

    def alone(self) -> AbstractContextManager[None]:
        """Exclude all other users of the store. A holder of `in_use()` must not call it."""
        return self._locked(fcntl.LOCK_EX, "waiting for a fetch or build that uses the store to end")

    @contextmanager
    def alone_now(self) -> Iterator[bool]:
        """As `alone()`, but yields False at once if anyone uses the store."""
        with self._lock_file() as file:
            yield try_acquire(file)

    @contextmanager
    def _locked(self, how: int, waiting: str) -> Iterator[None]:
        with self._lock_file() as file:
            acquire(file, waiting, how)
            yield

    def _lock_file(self) -> IO[str]:
        path = paths.private(self.root, shared=True) / "lock"
        try:
            return path.open("a+")
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            # Another user's shared store. A file opened for reading can be locked.
            return path.open()


def key_of(value: Any) -> str:
    """A stable name for plain data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def unwritable(error: OSError, store: Store, missing: int = 0) -> EngineError:
    """The error for a store that cannot be written; `missing` bytes are still to be downloaded, 0 if unknown."""
    if is_full(error):
        remedy = STORE_HINT.format(amount=size(missing) if missing else "space")
        return EngineError("the disk is full", str(store.root), f"{remedy}; downloaded parts are kept")
    hint = "make it writable, or set REPROKIT_HOME to another folder; downloaded parts are kept"
    return EngineError(f"the store is not writable: {error.strerror or error}", str(store.root), hint)
