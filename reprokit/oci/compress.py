"""A layer compressed while both sides are hashed, on all cores, with a few blocks in memory."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import zstandard

from reprokit.oci.model import LAYER_TYPE, ZSTD_LAYER_TYPE, Descriptor, Layer
from reprokit.untrusted.tar import Stream

_BLOCK = 1 << 20
_AHEAD = 8  # blocks that may wait for a thread
_LEVEL = 3
_JOB = 4 << 20
_MOST_THREADS = 8  # each holds two jobs; together they stay under 100 MB
_THREADS = min(os.cpu_count() or 1, _MOST_THREADS)

Write = Callable[[bytes], object]


class Hashed:
    """Computes the SHA-256 and the size of the written bytes, and passes them on to `target`."""

    def __init__(self, target: Write = lambda data: None) -> None:
        self._sha256, self.size, self._target = hashlib.sha256(), 0, target

    def write(self, data: bytes) -> int:
        self._sha256.update(data)
        self.size += len(data)
        self._target(data)
        return len(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._sha256.hexdigest()}"


def compress(blocks: Iterable[bytes], write: Write) -> Layer:
    """Compress `blocks` into `write`. The same layer gives the same blob on any machine, by the same zstd.

    Raises what the iterator or `write` raises; so does `copy`.
    """
    plain, packed = Hashed(), Hashed(write)
    # The number of threads does not change the result; the size of a job does.
    settings = zstandard.ZstdCompressionParameters.from_level(_LEVEL, threads=_THREADS, job_size=_JOB)
    packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    _parallel(blocks, plain.write, lambda block: packed.write(packer.compress(block)))
    packed.write(packer.flush())
    return Layer(plain.digest, plain.size, Descriptor(ZSTD_LAYER_TYPE, packed.digest, packed.size))


def copy(blocks: Iterable[bytes], write: Write) -> Layer:
    """Write the layer uncompressed: its blob's digest is the diff ID."""
    plain = Hashed()
    _parallel(blocks, plain.write, write)
    return Layer(plain.digest, plain.size, Descriptor(LAYER_TYPE, plain.digest, plain.size))


def _parallel(blocks: Iterable[bytes], *workers: Write) -> None:
    """Give each block to every worker, in order, in one thread a worker; a few blocks may wait."""
    threads, stream = [ThreadPoolExecutor(1) for _ in workers], Stream(blocks)
    waiting: deque[list[Future[object]]] = deque()

    def finish(most: int) -> None:
        while len(waiting) > most:
            for future in waiting.popleft():
                future.result()

    try:
        # Smaller blocks cost more to hand over than to process.
        while block := stream.read(_BLOCK):
            waiting.append([thread.submit(worker, block) for thread, worker in zip(threads, workers, strict=True)])
            finish(_AHEAD)
        finish(0)
    finally:
        for thread in threads:
            thread.shutdown(cancel_futures=True)
