"""Every byte of a bundle is hashed, on all cores, before anything of it is used.

A layer is hashed twice in one pass: its blob, and the tar that it unpacks to, whose digest its image's config names. If
the bundle has all layers of an image, the entries of that tar are read, too, to check the image's canonical digest.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import zstandard

from reprokit.bundle.canonical_tar import Member, refuse
from reprokit.bundle.layers import settings
from reprokit.bundle.read import Bundle
from reprokit.display import ByteProgress
from reprokit.errors import UsageError
from reprokit.oci.canonical import PassingLayers, canonical_digest
from reprokit.oci.model import Layer, blob_path
from reprokit.untrusted.limits import check_unpacked

BLOCK = 1 << 20
# zstd's own default for level 3 is 2 MiB; this bounds a reader's memory.
_WINDOW = 1 << 23
# Less than a socket takes at once (208 KiB on Linux): the engine reads one piece while the next is unpacked.
_PIECE = 1 << 17


@dataclass(frozen=True)
class VerifiedBundle:
    """A bundle whose digests are all right, as a `LayerSource`; `sizes` are its layers' unpacked sizes by diff ID."""

    bundle: Bundle
    sizes: dict[str, int]

    def blocks(self, diff_id: str, plain: bool, count: Callable[[int], None]) -> Iterator[bytes]:
        """Raises UsageError if the bundle has changed since it was verified."""
        member = self.bundle.member(self.bundle.layers[diff_id].descriptor.digest)
        raw = Reader(self.bundle, member, seen=count)
        size = self.sizes[diff_id] if plain else member.size
        read = unpacked(raw).read if plain else raw.read
        try:
            while size > 0 and (block := read(min(_PIECE if plain else BLOCK, size))):
                size -= len(block)
                yield block
            size = size or len(read(1))
        except zstandard.ZstdError:
            size = -1
        if size:
            raise UsageError("the bundle was changed while it was read", self.bundle.where, "repeat the command")


def verify(bundle: Bundle, progress: ByteProgress = lambda done, total: None) -> VerifiedBundle:
    """Hash everything; `progress` gets bytes of the bundle.

    Raises UsageError naming the damage. A layer that unpacks to more than the metadata allows is abandoned at once.
    """
    layers = [layer for layer in bundle.layers.values() if layer.blob]
    extras = {part.path: part.digest for part in bundle.metadata.parts}
    if bundle.metadata.inputs:
        extras |= {blob_path(digest): digest for digest in bundle.metadata.inputs.blobs}
    sizes_of_extras = [bundle.members[path].size for path in extras]
    stated = [
        (image, described.canonical)
        for image, described in zip(bundle.images, bundle.metadata.images, strict=True)
        if described.canonical and all(layer.blob for layer in image.layers)
    ]
    new = [image for image, _ in stated if not canonical_digest(image.diff_ids, {})]
    work = _Work(bundle, progress, sum(sizes_of_extras) + sum(layer.descriptor.size for layer in layers))
    work.passing = {diff_id for image in new for diff_id in image.diff_ids}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        # The largest first, so that none of them runs alone at the end.
        sizes = {
            layer.diff_id: pool.submit(work.layer, layer)
            for layer in sorted(layers, key=lambda layer: -layer.descriptor.size)
        }
        jobs: list[Future[Any]] = [
            *sizes.values(),
            *(
                pool.submit(Reader(bundle, bundle.members[path], digest, work.count).finish)
                for path, digest in extras.items()
            ),
        ]
        try:
            for job in as_completed(jobs):
                job.result()
        finally:
            work.stopped = True
            for job in jobs:
                job.cancel()
    found = {diff_id: job.result() for diff_id, job in sizes.items()}
    for image, described in zip(bundle.images, bundle.metadata.images, strict=True):
        total = sum(layer.size if layer.blob is None else found[layer.diff_id] for layer in image.layers)
        if total != described.size:
            refuse(f"{image.name}: its layers have {total} bytes, but the metadata says {described.size}", bundle.where)
    for image in new:
        work.entries.keep(image.diff_ids)
    for image, claimed in stated:
        # A claim about layers beyond a limit is not believed, but no contradiction either.
        if (digest := canonical_digest(image.diff_ids, settings(image.config))) not in ("", claimed):
            refuse(f"{image.name}: its canonical digest is {digest}, but the metadata says {claimed}", bundle.where)
    return VerifiedBundle(bundle, found)


def unpacked(raw: Reader) -> zstandard.ZstdDecompressionReader:
    """The uncompressed content of a blob; reading it raises zstandard's error."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    return unpacker.stream_reader(raw, read_size=BLOCK, read_across_frames=True)  # type: ignore[arg-type]


def blocks(raw: Reader) -> Iterator[bytes]:
    """The uncompressed content of a blob that may not have been verified.

    Raises zstandard's error, UsageError if it unpacks to suspiciously much.
    """
    content, size = unpacked(raw), 0
    while block := content.read(BLOCK):
        size += len(block)
        check_unpacked(size, raw.member.size, raw.bundle.where)
        yield block


class Reader:
    """A member as a file; `seen` gets the number of bytes of each read.

    With a `digest`, the read at the end raises UsageError if the content has another one.
    """

    def __init__(
        self, bundle: Bundle, member: Member, digest: str = "", seen: Callable[[int], None] = lambda count: None
    ) -> None:
        self.bundle, self.member, self._digest, self._seen = bundle, member, digest, seen
        self._at, self._end, self._hashed = member.offset, member.offset + member.size, hashlib.sha256()

    def read(self, size: int) -> bytes:
        block = os.pread(self.bundle.descriptor, min(size, self._end - self._at), self._at)
        self._at += len(block)
        if self._digest:
            self._hashed.update(block)
            if not block and size and (found := f"sha256:{self._hashed.hexdigest()}") != self._digest:
                why = (
                    f"is damaged, or was changed since it was verified: its digest is {found}, expected {self._digest}"
                )
                refuse(f"{self.member.path} {why}", self.bundle.where)
        self._seen(len(block))
        return block

    def finish(self) -> None:
        """Read what is left. Raises UsageError."""
        while self.read(BLOCK):
            pass


class _Stopped(Exception):
    """Another thread has found damage, or the user has interrupted."""


class _Work:
    def __init__(self, bundle: Bundle, progress: ByteProgress, total: int) -> None:
        self.bundle, self.stopped = bundle, False
        self._progress, self._done, self._total, self._unpacked = progress, 0, total, 0
        self._lock = threading.Lock()
        self.entries, self.passing = PassingLayers(), set[str]()

    def layer(self, layer: Layer) -> int:
        """The uncompressed size."""
        digest = layer.descriptor.digest
        raw = Reader(self.bundle, self.bundle.member(digest), digest, self.count)
        content, plain, size = unpacked(raw), hashlib.sha256(), 0
        bound, buffers = self.bundle.bounds[layer.diff_id], itertools.cycle((bytearray(BLOCK), bytearray(BLOCK)))
        what, where = f"the layer {layer.diff_id}", self.bundle.where
        read = self.entries.begin(layer.diff_id) if layer.diff_id in self.passing else lambda block: None
        hashed: Future[None] | None = None
        # One block is hashed while the next is unpacked: a single layer often is most of the image.
        with ThreadPoolExecutor(1) as hashing:
            try:
                while count := content.readinto(buffer := next(buffers)):
                    if hashed:
                        hashed.result()
                    hashed = hashing.submit(plain.update, memoryview(buffer)[:count])
                    read(bytes(memoryview(buffer)[:count]))
                    size += count
                    if size > bound:
                        refuse(f"{what} unpacks to more than the {bound} bytes that the metadata allows", where)
                    with self._lock:
                        self._unpacked += count
                    check_unpacked(self._unpacked, self._total, where)
            except zstandard.ZstdError:
                refuse(f"{what} is damaged: it cannot be unpacked", where)
            finally:
                read(b"")
        raw.finish()
        if (found := f"sha256:{plain.hexdigest()}") != layer.diff_id:
            refuse(f"{what} is damaged: its digest is {found}", where)
        return size

    def count(self, count: int) -> None:
        if self.stopped:
            raise _Stopped
        with self._lock:
            self._done += count
            self._progress(self._done, self._total)
