"""Processes that take turns at one thing, by a lock file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reprokit import paths


@contextmanager
def turn(file: Path, waiting: str, say: Callable[[str], object]) -> Iterator[None]:
    """One process at a time within; one that must wait says `waiting`. The lock file's folder is made private."""
    from filelock import FileLock, Timeout

    lock = FileLock(paths.private(file.parent) / file.name)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(waiting)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
