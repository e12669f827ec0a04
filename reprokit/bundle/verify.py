"""Every byte of a bundle is hashed, on all cores, before anything of it is used.

A layer is hashed twice in one pass: its blob, and the tar that it unpacks to, whose digest its image's config names.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import zstandard

from reprokit.bundle.canonical_tar import Member, refuse
from reprokit.bundle.read import Bundle
from reprokit.errors import UsageError
from reprokit.oci.model import Layer
from reprokit.untrusted.limits import check_unpacked

Progress = Callable[[int, int], None]
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
        """Raises UsageError where the bundle has changed since it was verified."""
        member = self.bundle.member(self.bundle.layers[diff_id].descriptor.digest)
        raw = Raw(self.bundle, member, lambda block: count(len(block)))
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


def verify(bundle: Bundle, progress: Progress = lambda done, total: None) -> VerifiedBundle:
    """Hash everything; `progress` gets bytes of the bundle.

    Raises UsageError naming the damage. A layer that unpacks to more than the metadata allows is abandoned at once.
    """
    layers = [layer for layer in bundle.layers.values() if layer.blob]
    extras = {bundle.members[part.path]: part.digest for part in bundle.metadata.parts}
    if bundle.metadata.inputs:
        extras |= {bundle.member(digest): digest for digest in bundle.metadata.inputs.blobs}
    work = _Work(bundle, progress, sum(m.size for m in extras) + sum(layer.blob.size for layer in layers if layer.blob))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        # The largest first, so that none of them runs alone at the end.
        sizes = {
            layer.diff_id: pool.submit(work.layer, layer)
            for layer in sorted(layers, key=lambda layer: -layer.descriptor.size)
        }
        jobs: list[Future[Any]] = [
            *sizes.values(),
            *(pool.submit(work.extra, member, digest) for member, digest in extras.items()),
        ]
        try:
            wait(jobs, return_when=FIRST_EXCEPTION)
        finally:
            work.stopped = True
            for job in jobs:
                job.cancel()
    for job in jobs:
        if not job.cancelled() and (error := job.exception()) and not isinstance(error, _Stopped):
            raise error
    found = {diff_id: job.result() for diff_id, job in sizes.items()}
    for image, described in zip(bundle.images, bundle.metadata.images, strict=True):
        total = sum(layer.size if layer.blob is None else found[layer.diff_id] for layer in image.layers)
        if total != described.size:
            refuse(f"{image.name}: its layers have {total} bytes, but the metadata says {described.size}", bundle.where)
    return VerifiedBundle(bundle, found)


def unpacked(raw: Raw) -> zstandard.ZstdDecompressionReader:
    """The uncompressed content of a blob; reading it raises zstandard's error."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    return unpacker.stream_reader(raw, read_size=BLOCK, read_across_frames=True)  # type: ignore[arg-type]


def blocks(raw: Raw) -> Iterator[bytes]:
    """The uncompressed content of a blob that may not have been verified.

    Raises zstandard's error, UsageError where it unpacks to suspiciously much.
    """
    content, size = unpacked(raw), 0
    while block := content.read(BLOCK):
        size += len(block)
        check_unpacked(size, raw.size, raw.where)
        yield block


class Raw:
    """A member as a file; `seen` gets each block as it is read."""

    def __init__(self, bundle: Bundle, member: Member, seen: Callable[[bytes], None] = lambda block: None) -> None:
        self.where, self.size = bundle.where, member.size
        self._descriptor, self._at, self._end = bundle.descriptor, member.offset, member.offset + member.size
        self._seen = seen

    def read(self, size: int) -> bytes:
        block = os.pread(self._descriptor, min(size, self._end - self._at), self._at)
        self._at += len(block)
        self._seen(block)
        return block


class Unchanged(Raw):
    """A workspace or input of the bundle. At its end `read` raises UsageError if it has changed since `verify`."""

    def __init__(self, bundle: Bundle, path: str, digest: str) -> None:
        super().__init__(bundle, bundle.members[path], (hashed := hashlib.sha256()).update)
        self._path, self._expected, self._digest = path, digest, hashed

    def read(self, size: int) -> bytes:
        block = super().read(size)
        if not block and size and f"sha256:{self._digest.hexdigest()}" != self._expected:
            refuse(f"{self._path} was changed since it was verified", self.where)
        return block

    def finish(self) -> None:
        """Read what is left. Raises UsageError."""
        while self.read(BLOCK):
            pass


class _Stopped(Exception):
    """Another thread has found damage, or the user has interrupted."""


class _Work:
    def __init__(self, bundle: Bundle, progress: Progress, total: int) -> None:
        self.bundle, self.stopped = bundle, False
        self._progress, self._done, self._total, self._unpacked = progress, 0, total, 0
        self._lock = threading.Lock()

    def layer(self, layer: Layer) -> int:
        """The uncompressed size."""
        raw = self._raw(self.bundle.member(layer.descriptor.digest), blob := hashlib.sha256())
        content, digest, size = unpacked(raw), hashlib.sha256(), 0
        bound, buffers = self.bundle.bounds[layer.diff_id], itertools.cycle((bytearray(BLOCK), bytearray(BLOCK)))
        what = f"the layer {layer.diff_id}"
        hashed: Future[None] | None = None
        # One block is hashed while the next is unpacked: a single layer often is most of the image.
        with ThreadPoolExecutor(1) as hashing:
            try:
                while count := content.readinto(buffer := next(buffers)):
                    if hashed:
                        hashed.result()
                    hashed = hashing.submit(digest.update, memoryview(buffer)[:count])
                    size += count
                    if size > bound:
                        room = f"the {bound} bytes that the metadata allows"
                        refuse(f"{what} unpacks to more than {room}", self._where)
                    with self._lock:
                        self._unpacked += count
                    check_unpacked(self._unpacked, self._total, self._where)
            except zstandard.ZstdError:
                refuse(f"{what} is damaged: it cannot be unpacked", self._where)
        self._expect(f"the blob of {what}", blob, layer.descriptor.digest)
        self._expect(what, digest, layer.diff_id)
        return size

    def extra(self, member: Member, expected: str) -> None:
        raw = self._raw(member, digest := hashlib.sha256())
        while raw.read(BLOCK):
            pass
        self._expect(member.path, digest, expected)

    def _raw(self, member: Member, digest: hashlib._Hash) -> Raw:
        def seen(block: bytes) -> None:
            digest.update(block)
            self._count(len(block))

        return Raw(self.bundle, member, seen)

    def _expect(self, what: str, digest: hashlib._Hash, expected: str) -> None:
        if (found := f"sha256:{digest.hexdigest()}") != expected:
            refuse(f"{what} is damaged: its digest is {found}, expected {expected}", self._where)

    def _count(self, count: int) -> None:
        if self.stopped:
            raise _Stopped
        with self._lock:
            self._done += count
            self._progress(self._done, self._total)

    @property
    def _where(self) -> str:
        return self.bundle.where
