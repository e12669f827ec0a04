"""Locks between processes, by lock files."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from reprokit import paths
from reprokit.display import notify


@contextmanager
def file_lock(file: Path, waiting: str, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock `file`, in a private folder. `waiting` is reported if another process has it.

    `how` is LOCK_EX to hold it alone, LOCK_SH to share it with others that do.
    """
    with (paths.private(file.parent) / file.name).open("ab") as opened:
        acquire(opened, how, waiting)
        yield


def acquire(opened: IO[Any], how: int, waiting: str) -> None:
    """Lock an open file until it is closed; `how` and `waiting` as in `file_lock`."""
    # flock, as filelock has no shared locks on it; the kernel releases it when the process ends.
    try:
        fcntl.flock(opened, how | fcntl.LOCK_NB)
    except BlockingIOError:
        notify(waiting)
        fcntl.flock(opened, how)
