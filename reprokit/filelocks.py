"""Locks between processes, by `flock`: the kernel releases one when its process ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from reprokit import paths
from reprokit.display import notify


@contextmanager
def file_lock(file: Path, waiting: str, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock `file`, in a private folder. `waiting` is reported if another process has it.

    `how` is LOCK_EX for an exclusive lock, LOCK_SH for a shared one.
    """
    path, flags = paths.private(file.parent) / file.name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "r+b") as opened:
        acquire(opened, waiting, how)
        yield


def acquire(opened: IO[Any], waiting: str, how: int = fcntl.LOCK_EX) -> None:
    """Lock an open file until it is closed; `how` and `waiting` as in `file_lock`."""
    if not try_acquire(opened, how):
        notify(waiting)
        fcntl.flock(opened, how)


def try_acquire(opened: IO[Any], how: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file until it is closed, or return False at once if another process has the lock."""
    try:
        fcntl.flock(opened, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
