"""The file that becomes a bundle: a tar that survives a kill at any point and is resumed.

An entry's header is written after its content, over a block of zeros that every reader takes for the end. So the
entries before that block are complete whenever the process dies, and the file is not yet a bundle.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import zstandard

from reprokit.errors import SourceError
from reprokit.oci.compress import Compressed
from reprokit.oci.layout import END, header
from reprokit.oci.model import BLOBS, ZSTD_LAYER_TYPE, Descriptor, blob_path

_BLOCK = tarfile.BLOCKSIZE
_READ = 1 << 20
_MUCH = 16 << 20
_PACKED = 1 << 12  # zstd makes 128 MiB of that at most


class ResumableTar:
    """Entries written one after another to `file`, which is open for reading and writing. A `BlobSink`."""

    def __init__(self, file: IO[bytes], expected: Collection[str] = frozenset()) -> None:
        """Keep the blobs of an earlier attempt whose diff IDs are `expected`, and cut off the rest."""
        self.file = file
        self.entries: dict[str, int] = {}
        self._present: dict[str, Descriptor] = {}
        self._syncing = ThreadPoolExecutor(1)
        self._end = 0
        self._reuse(expected)
        file.truncate(self._end)

    def present(self, diff_id: str) -> Descriptor | None:
        return self._present.get(diff_id)

    def begin(self) -> _BlobEntry:
        return _BlobEntry(self, self._end)

    def add(self, path: str, content: bytes) -> None:
        """Add a small entry. An entry of the same path is the same blob."""
        if path in self.entries:
            return
        entry = self.begin()
        entry.write(content)
        self.finish(path, len(content))

    def end(self) -> None:
        """Write the end mark and sync the file.

        Raises SourceError where the headers in the file are no longer those of the entries.
        """
        self.file.seek(self._end)
        self.file.write(END)
        self.file.flush()
        self._syncing.shutdown()
        os.fsync(self.file.fileno())
        self.file.seek(0)
        with tarfile.open(fileobj=self.file, mode="r:") as tar:
            there = {entry.name: entry.size for entry in tar}
        if there != self.entries:
            raise SourceError("another process changed the file", self.file.name, "repeat the command")

    def finish(self, path: str, size: int) -> None:
        """Turn the content that was just written into an entry."""
        self.file.seek(self._end + _BLOCK + size)
        self.file.write(bytes(-size % _BLOCK))
        self.file.flush()
        self.file.seek(self._end)
        self.file.write(header(path, size))
        self.file.flush()
        self.entries[path] = size
        self._end += _BLOCK + size + -size % _BLOCK
        if size > _MUCH:
            # In the background, so that `end` need not sync everything at once.
            self._syncing.submit(os.fdatasync, self.file.fileno())

    def remember(self, diff_id: str, blob: Descriptor) -> None:
        self._present[diff_id] = blob

    def _reuse(self, expected: Collection[str]) -> None:
        while expected and (found := self._finished_blob(self._end)):
            path, packed = found
            if packed.diff_id not in expected or packed.blob is None:
                return
            self.entries[path] = packed.blob.size
            self.remember(packed.diff_id, packed.blob)
            self._end += _BLOCK + packed.blob.size + -packed.blob.size % _BLOCK

    def _finished_blob(self, start: int) -> tuple[str, Compressed] | None:
        """The layer whose header is at `start`, if it is complete and its digest is its name."""
        self.file.seek(start)
        first = self.file.read(_BLOCK)
        try:
            entry = tarfile.TarInfo.frombuf(first, "utf-8", "strict")
        except tarfile.HeaderError:
            return None
        if not entry.name.startswith(BLOBS) or first != header(entry.name, entry.size):
            return None
        plain, packed, left, size = hashlib.sha256(), hashlib.sha256(), entry.size, 0
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        try:
            while left and (block := self.file.read(min(left, _READ))):
                left -= len(block)
                packed.update(block)
                for at in range(0, len(block), _PACKED):
                    content = unpacker.decompress(block[at : at + _PACKED])
                    size += len(content)
                    plain.update(content)
        except zstandard.ZstdError:
            return None
        digest = f"sha256:{packed.hexdigest()}"
        if left or not unpacker.eof or blob_path(digest) != entry.name:
            return None
        blob = Descriptor(ZSTD_LAYER_TYPE, digest, entry.size)
        return entry.name, Compressed(f"sha256:{plain.hexdigest()}", size, blob)


class _BlobEntry:
    """A layer's blob that is being written."""

    def __init__(self, tar: ResumableTar, start: int) -> None:
        self._tar, self._start = tar, start
        tar.file.seek(start)
        tar.file.truncate()
        tar.file.write(bytes(_BLOCK))

    def write(self, data: bytes) -> None:
        self._tar.file.write(data)

    def keep(self, diff_id: str, blob: Descriptor) -> None:
        if blob_path(blob.digest) in self._tar.entries:
            self.drop()
        else:
            self._tar.finish(blob_path(blob.digest), blob.size)
        self._tar.remember(diff_id, blob)

    def drop(self) -> None:
        self._tar.file.seek(self._start)
        self._tar.file.truncate()
