"""A file on its way into the store. Partial files survive a kill at any point.

The partial file is its own lock: only the holder of its flock writes it, and the kernel releases that with the process.
It is renamed while locked, so no lock file is left over.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from reprokit.filelocks import try_acquire
from reprokit.redact import redact
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store

_BLOCK = 1 << 20
_WRITEBACK = 1 << 23


def folder(store: Store) -> Path:
    """The folder of partial files: `KEY`, and beside it `KEY.json` after the first block."""
    return store.root / "partial"


class Partial:
    """Use as a context manager: it is locked inside. Its `offset` bytes are all hashed."""

    def __init__(self, file: FileIO, path: Path, md5: bool = False) -> None:
        self.path = path
        self.offset = 0
        self.url = ""
        self.etag: str | None = None
        self._file = file
        self._with_md5 = md5
        self._new_digests()
        self._flushed = 0
        self._noted: tuple[str, str | None] = ("", None)  # what the sidecar says

    def __enter__(self) -> Partial:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @classmethod
    def claim(cls, store: Store, locked: LockedInput) -> Partial | None:
        """The partial file of this content, with what earlier processes left; None while another process has it.

        Call `load` before `write`.
        """
        path = folder(store) / locked.key
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")
            if not try_acquire(file):
                file.close()
                return None
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    return cls(file, path, md5=not locked.sha256)
            file.close()  # published or removed between open and lock

    def load(self, size: int, going_on: Callable[[], object]) -> None:
        """Hash the present bytes, calling `going_on` after each MiB. A file longer than `size` is discarded.

        A power cut may have spoilt unsynced blocks: then the final hash differs, and the file is fetched again.
        """
        if os.fstat(self._file.fileno()).st_size > size:
            self.restart()
        while block := self._file.read(_BLOCK):
            self._update(block)
            self.offset += len(block)
            going_on()
        self._flushed = self.offset
        try:
            known = json.loads(self._sidecar.read_text())
            self.came_from(str(known["url"]), known["etag"])
            self._noted = (self.url, self.etag)
        except (OSError, ValueError, KeyError, TypeError):  # none, or its writer was killed
            self._sidecar.unlink(missing_ok=True)

    def came_from(self, url: str, etag: str | None) -> None:
        """Record the source of the next bytes, for `If-Range` in a later request."""
        self.url, self.etag = redact(url), etag

    def write(self, block: bytes) -> None:
        """Append. Raises OSError if the disk is full; the bytes that fit are kept."""
        if self.offset and self._noted != (self.url, self.etag):  # most files are one block and need none
            self._noted = (self.url, self.etag)
            self._sidecar.write_text(json.dumps({"url": self.url, "etag": self.etag}))
        view = memoryview(block)
        while view:
            written = self._file.write(view) or 0
            self._update(view[:written])
            self.offset += written
            view = view[written:]
        if self.offset - self._flushed >= _WRITEBACK:
            # Starts the write-back early, so that the fsync at the end is short.
            os.posix_fadvise(self._file.fileno(), self._flushed, self.offset - self._flushed, os.POSIX_FADV_DONTNEED)
            self._flushed = self.offset

    def restart(self) -> None:
        """Discard all bytes."""
        self._file.seek(0)
        self._file.truncate()
        self._sidecar.unlink(missing_ok=True)
        self._new_digests()
        self.offset = self._flushed = 0
        self.url, self.etag = self._noted = "", None

    @property
    def sha256(self) -> str:
        """Of the bytes so far, 64 hex digits."""
        return self._digest.hexdigest()

    def differs(self, locked: LockedInput) -> str:
        """How the bytes so far differ from the locked checksum; empty if they match, or if there is none."""
        for name, expected, digest in (("sha256", locked.sha256, self._digest), ("md5", locked.md5, self._md5)):
            if expected and digest and digest.hexdigest() != expected:
                return f"expected {name} {expected}, got {digest.hexdigest()}"
        return ""

    def _new_digests(self) -> None:
        self._digest = hashlib.sha256()
        # md5 finds damage; the sha256 of the same bytes is what is trusted from then on.
        self._md5 = hashlib.md5(usedforsecurity=False) if self._with_md5 else None

    def _update(self, block: bytes | memoryview) -> None:
        self._digest.update(block)
        if self._md5:
            self._md5.update(block)

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
