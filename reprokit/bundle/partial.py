"""The file that becomes a bundle: a tar whose finished blobs can be told from an unfinished one, and used again.

An entry's header is written after its content, over a block of zeroes that every reader takes for the end. So whatever
moment the process dies at, the entries before that block are whole, and the file is no bundle.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import zstandard

from reprokit.bundle.model import BLOBS, ZSTD_LAYER_TYPE, Descriptor, blob_path
from reprokit.bundle.pack import Packed
from reprokit.errors import SourceError

_BLOCK = tarfile.BLOCKSIZE
_READ = 1 << 20
_MUCH = 16 << 20
_PACKED = 1 << 12  # zstd makes 128 MiB of that at most


class PartialTar:
    """Entries written one after another to `file`, which is open for reading and writing. A `Sink` for layers."""

    def __init__(self, file: IO[bytes], wanted: Collection[str] = frozenset()) -> None:
        """Blobs that an earlier attempt finished are kept where their diff ids are `wanted`; the rest is cut off."""
        self.file = file
        self.entries: dict[str, int] = {}
        self._held: dict[str, Descriptor] = {}
        self._syncing = ThreadPoolExecutor(1)
        self._end = 0
        self._reuse(wanted)
        file.truncate(self._end)

    def held(self, diff_id: str) -> Descriptor | None:
        return self._held.get(diff_id)

    def begin(self) -> PartialBlob:
        return PartialBlob(self, self._end)

    def add(self, path: str, content: bytes) -> None:
        """A small entry. One of the same path is taken to be the same blob."""
        if path in self.entries:
            return
        entry = self.begin()
        entry.write(content)
        self.finish(path, len(content))

    def end(self) -> None:
        """Two blocks of zeroes, as tar wants, and all of it on the disk.

        Raises SourceError where the headers that now stand in the file are not those of the entries.
        """
        self.file.seek(self._end)
        self.file.write(bytes(2 * _BLOCK))
        self.file.flush()
        self._syncing.shutdown()
        os.fsync(self.file.fileno())
        self.file.seek(0)
        with tarfile.open(fileobj=self.file, mode="r:") as tar:
            there = {entry.name: entry.size for entry in tar}
        if there != self.entries:
            raise SourceError("the archive was changed while it was written", self.file.name, "write it again")

    def finish(self, path: str, size: int) -> None:
        """The content that stands behind the last header's place becomes an entry."""
        self.file.seek(self._end + _BLOCK + size)
        self.file.write(bytes(-size % _BLOCK))
        self.file.flush()
        self.file.seek(self._end)
        self.file.write(header(path, size))
        self.file.flush()
        self.entries[path] = size
        self._end += _BLOCK + size + -size % _BLOCK
        if size > _MUCH:
            # Behind the work on what follows, so that the end does not wait for all of it.
            self._syncing.submit(os.fdatasync, self.file.fileno())

    def remember(self, diff_id: str, blob: Descriptor) -> None:
        self._held[diff_id] = blob

    def _reuse(self, wanted: Collection[str]) -> None:
        while wanted and (found := self._finished_blob(self._end)):
            path, packed = found
            if packed.diff_id not in wanted or packed.blob is None:
                return
            self.entries[path] = packed.blob.size
            self.remember(packed.diff_id, packed.blob)
            self._end += _BLOCK + packed.blob.size + -packed.blob.size % _BLOCK

    def _finished_blob(self, start: int) -> tuple[str, Packed] | None:
        """The layer whose header stands at `start`, if all of it is there and is what its name says."""
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
        return entry.name, Packed(f"sha256:{plain.hexdigest()}", size, blob)


class PartialBlob:
    """A layer's blob on its way into the file."""

    def __init__(self, tar: PartialTar, start: int) -> None:
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


def header(path: str, size: int) -> bytes:
    """An entry's header, one block at any size; equal entries have equal headers."""
    info = tarfile.TarInfo(path)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)
