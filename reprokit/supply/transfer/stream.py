"""The archive as a stream of bytes, written and read once from the beginning to the end."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable, Iterator
from typing import IO

import zstandard
from pydantic import ValidationError

from reprokit.errors import SourceError, UsageError
from reprokit.supply.transfer.manifest import END, NAME, Entry, Manifest, header, padding
from reprokit.untrusted.documents import first_fault, measure
from reprokit.untrusted.limits import DOCUMENT, check_unpacked

Watch = Callable[[int, int], None]
_BLOCK = 1 << 20
_LEVEL = 3  # takes what is compressed already at more than 1 GB/s, and base images to a third
_THREADS = min(4, os.cpu_count() or 1)  # any number of them gives the same bytes
# A block of zstd holds at most 128 KiB in as little as 4 bytes: what one read can become stays bounded.
_PACKED = 1 << 12
_WINDOW = 1 << 23


class Writer:
    """Writes an archive to `file`. For each entry of the manifest `add` is called once, in order; then `end`."""

    def __init__(self, file: IO[bytes], manifest: Manifest, watch: Watch) -> None:
        packer = zstandard.ZstdCompressor(level=_LEVEL, threads=_THREADS, write_checksum=True)
        self._out = packer.stream_writer(file, closefd=False)
        self._watch, self._done, self._total = watch, 0, manifest.size
        text = manifest.model_dump_json().encode()
        for part in (header(NAME, len(text)), text, padding(len(text))):
            self._out.write(part)

    def add(self, entry: Entry, content: IO[bytes]) -> None:
        """Raises SourceError where the content is not what the manifest says."""
        self._out.write(header(entry.path, entry.size))
        digest, size = hashlib.sha256(), 0
        while block := content.read(_BLOCK):
            digest.update(block)
            size += len(block)
            self._out.write(block)
            self._done += len(block)
            self._watch(self._done, self._total)
        if size != entry.size or digest.hexdigest() != entry.sha256:
            raise SourceError(
                f"{entry.path} is damaged in the store: {entry.size} bytes with the sha256 {entry.sha256} are expected",
                hint="`reprokit store verify --repair` removes what is damaged, `reprokit fetch` brings it again",
            )
        self._out.write(padding(size))

    def end(self) -> None:
        self._out.write(END)
        self._out.close()


class Reader:
    """Reads an archive: `manifest` first, then the `content` of each of its entries in order, then `end`.

    Whatever is not exactly as written raises UsageError naming `where` and the entry.
    """

    def __init__(self, file: IO[bytes], where: str, watch: Watch) -> None:
        self._file, self._where, self._watch = file, where, watch
        self._object = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        self._rest = memoryview(b"")
        self._reading = NAME
        self._done = self._total = self._packed = self._unpacked_size = 0

    def manifest(self) -> Manifest:
        first = self._exactly(tarfile.BLOCKSIZE)
        try:
            size = tarfile.TarInfo.frombuf(first, "utf-8", "surrogateescape").size
        except tarfile.HeaderError:
            size = -1
        if not 0 <= size < 1 << 33 or first != header(NAME, size):
            raise self._refused("this is no archive of `reprokit store export`")
        DOCUMENT.check(size, f"bytes in {NAME}", self._where)
        measure(text := self._exactly(size), self._where)
        try:
            manifest = Manifest.model_validate_json(text)
        except ValidationError as error:
            field, why = first_fault(error)
            raise self._refused(f"its manifest is not valid: {field}: {why}") from None
        self._exactly(len(padding(size)))
        self._total = manifest.size
        return manifest

    def content(self, entry: Entry) -> Iterator[memoryview]:
        """The entry's content in blocks, the last of which comes before it is known whether all of it was right."""
        self._reading = entry.path
        expected = header(entry.path, entry.size)
        if self._exactly(len(expected)) != expected:
            raise self._refused("another entry stands where the manifest names this one")
        digest, left = hashlib.sha256(), entry.size
        while left:
            block = self._some(min(left, _BLOCK))
            left -= len(block)
            digest.update(block)
            yield block
            self._done += len(block)
            self._watch(self._done, self._total)
        if digest.hexdigest() != entry.sha256:
            raise self._refused(f"its sha256 is {digest.hexdigest()}, expected {entry.sha256}")
        if any(self._exactly(len(padding(entry.size)))):
            raise self._refused("it is longer than the manifest says")

    def end(self) -> None:
        self._reading = "the end"
        if self._exactly(len(END)) != END:
            raise self._refused("more stands in it than the manifest names")
        while not (self._object.eof or self._rest):
            self._rest = memoryview(self._unpacked())
        if self._rest or not self._object.eof or self._object.unused_data or self._file.read(1):
            raise self._refused("more stands in it than the manifest names")

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            parts.append(bytes(self._some(size)))
            size -= len(parts[-1])
        return b"".join(parts)

    def _some(self, most: int) -> memoryview:
        """At least one byte."""
        while not self._rest:
            self._rest = memoryview(self._unpacked())
        piece, self._rest = self._rest[:most], self._rest[most:]
        return piece

    def _unpacked(self) -> bytes:
        packed = b"" if self._object.eof else self._file.read(_PACKED)
        if not packed:
            raise self._refused("the archive is cut off there")
        self._packed += len(packed)
        try:
            found = self._object.decompress(packed)
        except zstandard.ZstdError:
            raise self._refused("the archive is damaged there, or is none") from None
        self._unpacked_size += len(found)
        check_unpacked(self._unpacked_size, self._packed, self._where)
        return found

    def _refused(self, why: str) -> UsageError:
        return UsageError(f"{self._reading}: {why}", self._where, "nothing of it was taken; copy or export it again")
