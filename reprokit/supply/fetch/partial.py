"""A file on its way into the store. It outlives the process that fetches it, however that ends.

The partial file is its own lock: who holds flock on it writes it, and the kernel lets go of it with the process. A
published one is renamed away under its lock, so that there is no lock file to be left over.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from types import TracebackType

from reprokit.redact import redact
from reprokit.supply.store import Store

_BLOCK = 1 << 20
_WRITEBACK = 1 << 23


def folder(store: Store) -> Path:
    """Where partial files are: `SHA256`, and beside it `SHA256.json` once it took more than a block."""
    return store.root / "partial"


class Partial:
    """Use as a context manager: it is locked inside. `offset` bytes are there, all of them hashed."""

    def __init__(self, file: FileIO, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.url = ""
        self.etag: str | None = None
        self._file = file
        self._digest = hashlib.sha256()
        self._flushed = 0
        self._noted: tuple[str, str | None] = ("", None)  # what the sidecar says

    def __enter__(self) -> Partial:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    @classmethod
    def claim(cls, store: Store, sha256: str) -> Partial | None:
        """The partial file of this content with what earlier processes left in it, or None while another has it.

        `load` it before it is written to.
        """
        path = folder(store) / sha256
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    return cls(file, path)
            except BlockingIOError:
                file.close()
                return None
            except FileNotFoundError:
                pass
            file.close()  # published or removed between open and lock

    def load(self, size: int, going_on: Callable[[], object]) -> None:
        """Hash what is there, calling `going_on` after each MiB; more than `size` bytes are no beginning of the file.

        What a power cut left of unsynced blocks is hashed as it reads now: the end tells, and the file is fetched anew.
        """
        if os.fstat(self._file.fileno()).st_size > size:
            self.restart()
        while block := self._file.read(_BLOCK):
            self._digest.update(block)
            self.offset += len(block)
            going_on()
        self._flushed = self.offset
        try:
            known = json.loads(self._sidecar.read_text())
            self.came_from(str(known["url"]), known["etag"])
            self._noted = (self.url, self.etag)
        except (OSError, ValueError, KeyError, TypeError):  # killed while it was written; the hash decides alone
            self._sidecar.unlink(missing_ok=True)

    def came_from(self, url: str, etag: str | None) -> None:
        """Note whose bytes come now, for `If-Range` when they are asked for again."""
        self.url, self.etag = redact(url), etag

    def write(self, block: bytes) -> None:
        """Append. Raises OSError where the disk is full; what fitted is kept."""
        if self.offset and self._noted != (self.url, self.etag):  # most files are one block and never need it
            self._noted = (self.url, self.etag)
            self._sidecar.write_text(json.dumps({"url": self.url, "etag": self.etag}))
        view = memoryview(block)
        while view:
            written = self._file.write(view) or 0
            self._digest.update(view[:written])
            self.offset += written
            view = view[written:]
        if self.offset - self._flushed >= _WRITEBACK:
            # Starts writing back without waiting for it: the fsync at the end has little left to do.
            os.posix_fadvise(self._file.fileno(), self._flushed, self.offset - self._flushed, os.POSIX_FADV_DONTNEED)
            self._flushed = self.offset

    def restart(self) -> None:
        """Throw away what is there."""
        self._file.seek(0)
        self._file.truncate()
        self._sidecar.unlink(missing_ok=True)
        self._digest = hashlib.sha256()
        self.offset = self._flushed = 0
        self.url, self.etag = self._noted = "", None

    @property
    def sha256(self) -> str:
        """Of the bytes so far, 64 hex digits."""
        return self._digest.hexdigest()

    def publish(self, store: Store) -> None:
        """Make it the store's file of its content."""
        os.fsync(self._file.fileno())
        os.fchmod(self._file.fileno(), 0o644)
        published = store.path(self.sha256)
        published.parent.mkdir(parents=True, exist_ok=True)
        self._sidecar.unlink(missing_ok=True)
        self.path.replace(published)

    def discard(self) -> None:
        """Remove it."""
        self._sidecar.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    @property
    def _sidecar(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")
