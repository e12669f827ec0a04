"""A layer compressed while both sides are hashed, on all cores, a few blocks in memory."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import zstandard

from reprokit.bundle.model import ZSTD_LAYER_TYPE, Descriptor

_BLOCK = 1 << 20
_AHEAD = 8  # blocks that may wait for a thread
_LEVEL = 3
_JOB = 4 << 20
_MOST_THREADS = 8  # each holds two jobs; together they stay under 100 MB
_THREADS = min(os.cpu_count() or 1, _MOST_THREADS)


@dataclass(frozen=True)
class Packed:
    """The uncompressed side (`diff_id`, `size` in bytes), and the blob where there is one."""

    diff_id: str
    size: int
    blob: Descriptor | None


def pack(blocks: Iterable[bytes], write: Callable[[bytes], None] | None) -> Packed:
    """Compress `blocks` into `write`; with None they are only hashed. The same layer gives the same blob anywhere.

    What an iterator or `write` raises comes out here.
    """
    plain, packed = hashlib.sha256(), hashlib.sha256()
    sizes = [0, 0]
    # The number of threads does not change what comes out; the size of a job does.
    settings = zstandard.ZstdCompressionParameters.from_level(_LEVEL, threads=_THREADS, job_size=_JOB)
    packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()

    def out(data: bytes) -> None:
        if data and write:
            packed.update(data)
            sizes[1] += len(data)
            write(data)

    waiting: deque[tuple[Future[None], ...]] = deque()
    with ThreadPoolExecutor(1) as hashing, ThreadPoolExecutor(1) as packing:
        for block in _gathered(blocks):
            sizes[0] += len(block)
            work = [hashing.submit(plain.update, block)]
            if write:
                work.append(packing.submit(lambda block=block: out(packer.compress(block))))  # type: ignore[misc]
            waiting.append(tuple(work))
            if len(waiting) > _AHEAD:
                _done(waiting.popleft())
        while waiting:
            _done(waiting.popleft())
    if write:
        out(packer.flush())
    diff_id = f"sha256:{plain.hexdigest()}"
    blob = Descriptor(ZSTD_LAYER_TYPE, f"sha256:{packed.hexdigest()}", sizes[1]) if write else None
    return Packed(diff_id, sizes[0], blob)


def _done(work: tuple[Future[None], ...]) -> None:
    for each in work:
        each.result()


def _gathered(blocks: Iterable[bytes]) -> Iterable[bytes]:
    """In blocks of about 1 MiB: handing over smaller ones costs more than the work on them."""
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        parts.append(block)
        size += len(block)
        if size >= _BLOCK:
            yield b"".join(parts) if len(parts) > 1 else block
            parts, size = [], 0
    if parts:
        yield b"".join(parts)
