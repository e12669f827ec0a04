"""The file that becomes a bundle: a tar that survives a kill at any point and is resumed.

An entry's header is written after its content, over a block of zeros that every reader takes for the end. So the
entries before that block are complete whenever the process dies, and the file is not yet a bundle.
"""

from __future__ import annotations

import contextlib
import os
import tarfile
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import zstandard

from reprokit.errors import SourceError
from reprokit.oci.compress import Hashed
from reprokit.oci.layout import END, header
from reprokit.oci.model import BLOBS, ZSTD_LAYER_TYPE, Descriptor, Layer, blob_path

_BLOCK = tarfile.BLOCKSIZE
_READ = 1 << 20
_MUCH = 16 << 20
_PACKED = 1 << 12  # zstd makes 128 MiB of that at most


class ResumableTar:
    """Entries written one after another to `file`, which is open for reading and writing. A `BlobSink`."""

    def __init__(self, file: IO[bytes], expected: Collection[str] = frozenset()) -> None:
        """Keep the blobs of an earlier attempt whose diff IDs are `expected`, and cut off the rest."""
        self.file, self.write = file, file.write
        self.entries: dict[str, int] = {}
        self._present: dict[str, Descriptor] = {}
        self._syncing = ThreadPoolExecutor(1)
        self._end = 0
        self._reuse(expected)
        file.truncate(self._end)

    def present(self, diff_id: str) -> Descriptor | None:
        return self._present.get(diff_id)

    @contextlib.contextmanager
    def begin(self) -> Iterator[ResumableTar]:
        """Begin an entry, which is dropped unless `finish` or `keep` is called in the block."""
        start = self._end
        self.file.seek(start)
        self.file.truncate()
        self.file.write(bytes(_BLOCK))
        try:
            yield self
        finally:
            if self._end == start:
                self.file.seek(start)
                self.file.truncate()

    def keep(self, layer: Layer) -> None:
        """Turn the blob that was just written into an entry, unless there is the same one."""
        assert layer.blob
        if (path := blob_path(layer.blob.digest)) not in self.entries:
            self.finish(path, layer.blob.size)
        self._present[layer.diff_id] = layer.blob

    def add(self, path: str, content: bytes) -> None:
        """Add a small entry. An entry of the same path is the same blob."""
        if path not in self.entries:
            with self.begin():
                self.write(content)
                self.finish(path, len(content))

    def end(self) -> None:
        """Write the end mark and sync the file.

        Raises SourceError if the headers in the file are no longer those of the entries.
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

    def _reuse(self, expected: Collection[str]) -> None:
        while expected and (layer := self._finished_layer()) and layer.diff_id in expected and layer.blob:
            self.entries[blob_path(layer.blob.digest)] = layer.blob.size
            self._present[layer.diff_id] = layer.blob
            self._end += _BLOCK + layer.blob.size + -layer.blob.size % _BLOCK

    def _finished_layer(self) -> Layer | None:
        """The layer after the last entry, if it is complete and its digest is its name."""
        self.file.seek(self._end)
        first = self.file.read(_BLOCK)
        try:
            entry = tarfile.TarInfo.frombuf(first, "utf-8", "strict")
        except tarfile.HeaderError:
            return None
        if not entry.name.startswith(BLOBS) or first != header(entry.name, entry.size):
            return None
        plain, packed, left = Hashed(), Hashed(), entry.size
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        try:
            while left and (block := self.file.read(min(left, _READ))):
                left -= len(block)
                packed.write(block)
                for at in range(0, len(block), _PACKED):
                    plain.write(unpacker.decompress(block[at : at + _PACKED]))
        except zstandard.ZstdError:
            return None
        if left or not unpacker.eof or blob_path(packed.digest) != entry.name:
            return None
        return Layer(plain.digest, plain.size, Descriptor(ZSTD_LAYER_TYPE, packed.digest, packed.size))
