"""A layer compressed while both sides are hashed, on all cores, with a few blocks in memory."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import zstandard

from reprokit.oci.model import LAYER_TYPE, ZSTD_LAYER_TYPE, Descriptor

_BLOCK = 1 << 20
_AHEAD = 8  # blocks that may wait for a thread
_LEVEL = 3
_JOB = 4 << 20
_MOST_THREADS = 8  # each holds two jobs; together they stay under 100 MB
_THREADS = min(os.cpu_count() or 1, _MOST_THREADS)

Write = Callable[[bytes], None]


@dataclass(frozen=True)
class Compressed:
    """The uncompressed side (`diff_id`, `size` in bytes), and the blob where there is one."""

    diff_id: str
    size: int
    blob: Descriptor | None


class Hashed:
    """The SHA-256 and the size of what `update` gets."""

    def __init__(self) -> None:
        self._sha256, self.size = hashlib.sha256(), 0

    def update(self, data: bytes) -> None:
        self._sha256.update(data)
        self.size += len(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._sha256.hexdigest()}"


def compress(blocks: Iterable[bytes], write: Write) -> Compressed:
    """Compress `blocks` into `write`. The same layer gives the same blob on any machine, by the same zstd.

    Raises what the iterator or `write` raises; so does `copy`.
    """
    plain, packed = Hashed(), Hashed()

    def out(data: bytes) -> None:
        packed.update(data)
        write(data)

    # The number of threads does not change the result; the size of a job does.
    settings = zstandard.ZstdCompressionParameters.from_level(_LEVEL, threads=_THREADS, job_size=_JOB)
    packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    _parallel(blocks, plain.update, lambda block: out(packer.compress(block)))
    out(packer.flush())
    return Compressed(plain.digest, plain.size, Descriptor(ZSTD_LAYER_TYPE, packed.digest, packed.size))


def copy(blocks: Iterable[bytes], write: Write) -> Compressed:
    """Write the layer uncompressed: its blob's digest is the diff ID."""
    plain = Hashed()
    _parallel(blocks, plain.update, write)
    return Compressed(plain.digest, plain.size, Descriptor(LAYER_TYPE, plain.digest, plain.size))


def _parallel(blocks: Iterable[bytes], *workers: Write) -> None:
    """Give each block to every worker, in order, in one thread a worker; a few blocks may wait."""
    threads = [ThreadPoolExecutor(1) for _ in workers]
    waiting: deque[list[Future[None]]] = deque()

    def finish(most: int) -> None:
        while len(waiting) > most:
            for each in waiting.popleft():
                each.result()

    try:
        for block in _gathered(blocks):
            waiting.append([thread.submit(worker, block) for thread, worker in zip(threads, workers, strict=True)])
            finish(_AHEAD)
        finish(0)
    finally:
        for thread in threads:
            thread.shutdown(cancel_futures=True)


def _gathered(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Join blocks to about 1 MiB: handing over smaller ones costs more than the work on them."""
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
