"""The file that becomes a bundle: a tar beside its target that survives a kill at any point and is resumed.

An entry's header is written after its content, over a block of zeros, which is the end for every reader. So the
entries before that block are complete whenever the process dies, and the file is not yet a bundle. One process writes
it at a time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tarfile
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import zstandard

from reprokit.display import notify
from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.filelocks import acquire
from reprokit.formatting import size as in_words
from reprokit.host.disk import unwritable
from reprokit.oci.compress import Hashed
from reprokit.oci.layout import END, header
from reprokit.oci.model import BLOBS, ZSTD_LAYER_TYPE, Descriptor, Layer, blob_path

# O_NONBLOCK: opening a planted pipe would block.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_RECORD = tarfile.BLOCKSIZE
_READ = 1 << 20
_MUCH = 16 << 20
_PACKED = 1 << 12  # zstd makes 128 MiB of that at most


def partial_of(target: Path) -> Path:
    """The file that is written before it becomes `target`."""
    return target.with_name(f".{target.name}.partial")


def claimed(partial: Path) -> IO[bytes]:
    """Open and lock the partial file, which a killed process may have begun.

    Raises OSError, also if it is a link, which could lead to any file of the user's.
    """
    while True:
        file = os.fdopen(os.open(partial, _FLAGS, 0o666), "r+b")
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            file.close()
            raise OSError(errno.EEXIST, "not a regular file with one name", str(partial))
        # A child of a killed process may still hold the lock.
        acquire(file, "another export writes this file; waiting for it to end")
        with contextlib.suppress(FileNotFoundError):
            if partial.lstat().st_ino == status.st_ino:
                return file
        file.close()  # it was renamed to the target meanwhile


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
        self.file.write(bytes(_RECORD))
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
            headers = {entry.name: entry.size for entry in tar}
        if headers != self.entries:
            raise SourceError("another process changed the file", self.file.name, "repeat the command")

    def finish(self, path: str, size: int) -> None:
        """Turn the content that was just written into an entry."""
        self.file.seek(self._end + _RECORD + size)
        self.file.write(bytes(-size % _RECORD))
        self.file.flush()
        self.file.seek(self._end)
        self.file.write(header(path, size))
        self.file.flush()
        self.entries[path] = size
        self._end += _RECORD + size + -size % _RECORD
        if size > _MUCH:
            # Sync in the background, so that `end` need not sync everything at once.
            self._syncing.submit(os.fdatasync, self.file.fileno())

    def _reuse(self, expected: Collection[str]) -> None:
        while expected and (layer := self._finished_layer()) and layer.diff_id in expected and layer.blob:
            self.entries[blob_path(layer.blob.digest)] = layer.blob.size
            self._present[layer.diff_id] = layer.blob
            self._end += _RECORD + layer.blob.size + -layer.blob.size % _RECORD

    def _finished_layer(self) -> Layer | None:
        """The layer after the last entry if it is complete and matches the digest in its name, else None."""
        self.file.seek(self._end)
        first = self.file.read(_RECORD)
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


@contextlib.contextmanager
def becoming(target: Path, expected: Collection[str] = frozenset()) -> Iterator[ResumableTar]:
    """A tar that is renamed to the target when the block ends.

    After a kill, an interrupt or the engine's end the finished layers of `expected` stay beside the target.
    """
    partial = partial_of(target)
    with claim(target) as file:
        kept = False
        try:
            if expected and partial.stat().st_size:
                notify("checking the layers that an earlier attempt has finished")
            tar = ResumableTar(file, expected)
            if tar.entries:
                notify(f"going on from an earlier attempt: {in_words(sum(tar.entries.values()))} present")
            try:
                yield tar
                tar.end()
            except (KeyboardInterrupt, SystemExit, EngineError):
                kept = bool(expected and tar.entries)
                raise
            partial.replace(target)
            _sync(target.parent)
        except OSError as error:
            raise unwritable(error, "the file", target) from None
        finally:
            if kept:
                notify(f"finished layers stay in {partial}; repeat the command to resume")
            else:
                partial.unlink(missing_ok=True)


def claim(target: Path) -> IO[bytes]:
    """The partial file of a target, for this process alone. Raises UsageError, EngineError as `unwritable`.

    A device or a pipe is refused: the rename would replace it.
    """
    try:
        if target.exists() and not target.is_file():
            what = "a folder" if target.is_dir() else "no regular file"
            raise UsageError(f"the target is {what}", str(target), "name a file, such as x.rkit")
        return claimed(partial_of(target))
    except OSError as error:
        raise unwritable(error, "the file", target) from None


def _sync(folder: Path) -> None:
    """Sync the folder, so that the new name survives a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
