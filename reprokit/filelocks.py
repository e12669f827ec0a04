"""Locks between processes, by lock files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reprokit import paths


@contextmanager
def file_lock(file: Path, waiting: str, notify: Callable[[str], object]) -> Iterator[None]:
    """Hold the lock `file`, in a private folder; `waiting` is reported while another process holds it."""
    from filelock import FileLock, Timeout

    lock = FileLock(paths.private(file.parent) / file.name)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        notify(waiting)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
