"""A layer compressed while both sides are hashed, on all cores, a few blocks in memory."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import zstandard

from reprokit.bundle.model import LAYER_TYPE, ZSTD_LAYER_TYPE, Descriptor

_BLOCK = 1 << 20
_AHEAD = 8  # blocks that may wait for a thread
_LEVEL = 3
_JOB = 4 << 20
_MOST_THREADS = 8  # each holds two jobs; together they stay under 100 MB
_THREADS = min(os.cpu_count() or 1, _MOST_THREADS)

Write = Callable[[bytes], None]


@dataclass(frozen=True)
class Packed:
    """The uncompressed side (`diff_id`, `size` in bytes), and the blob where one was written."""

    diff_id: str
    size: int
    blob: Descriptor | None


def pack(blocks: Iterable[bytes], write: Write) -> Packed:
    """Compress `blocks` into `write`. The same layer gives the same blob on any machine, by the same zstd.

    What the iterator or `write` raises comes out here; so with `copy`.
    """
    plain, packed = _Sum(), _Sum()

    def out(data: bytes) -> None:
        packed.update(data)
        write(data)

    packer = _packer()
    with _Lanes(plain.update, lambda block: out(packer.compress(block))) as feed:
        for block in _gathered(blocks):
            feed(block)
    out(packer.flush())
    return Packed(plain.digest, plain.size, Descriptor(ZSTD_LAYER_TYPE, packed.digest, packed.size))


def copy(blocks: Iterable[bytes], write: Write) -> Packed:
    """Leave the layer as it is: the blob is the tar, and its digest the diff id."""
    plain = _Sum()
    with _Lanes(plain.update, write) as feed:
        for block in _gathered(blocks):
            feed(block)
    return Packed(plain.digest, plain.size, Descriptor(LAYER_TYPE, plain.digest, plain.size))


class _Sum:
    def __init__(self) -> None:
        self._sha256, self.size = hashlib.sha256(), 0

    def update(self, data: bytes) -> None:
        self._sha256.update(data)
        self.size += len(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._sha256.hexdigest()}"


class _Packer(Protocol):
    def compress(self, data: bytes) -> bytes: ...
    def flush(self) -> bytes: ...


def _packer() -> _Packer:
    # The number of threads does not change what comes out; the size of a job does.
    settings = zstandard.ZstdCompressionParameters.from_level(_LEVEL, threads=_THREADS, job_size=_JOB)
    return zstandard.ZstdCompressor(compression_params=settings).compressobj()


class _Lanes:
    """Each block goes to every worker, in order, in a thread a worker; a few blocks may wait."""

    def __init__(self, *workers: Write) -> None:
        self._lanes = [(worker, ThreadPoolExecutor(1)) for worker in workers]
        self._waiting: deque[list[Future[None]]] = deque()

    def __enter__(self) -> Write:
        return self._feed

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            while self._waiting and kind is None:
                self._take()
        finally:
            for _, lane in self._lanes:
                lane.shutdown(cancel_futures=True)

    def _feed(self, block: bytes) -> None:
        self._waiting.append([lane.submit(worker, block) for worker, lane in self._lanes])
        if len(self._waiting) > _AHEAD:
            self._take()

    def _take(self) -> None:
        for each in self._waiting.popleft():
            each.result()


def _gathered(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """In blocks of about 1 MiB: handing over smaller ones costs more than the work on them."""
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        parts.append(block)
        size += len(block)
        if size >= _BLOCK:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)
