"""The file beside a target that becomes it, one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO


def partial_of(target: Path) -> Path:
    """Where the bytes of `target` stand until it is whole."""
    return target.with_name(f".{target.name}.partial")


def claimed(partial: Path, say: Callable[[str], None]) -> IO[bytes]:
    """The file, for as long as it is open nobody else's, with what a killed process left in it. Raises OSError."""
    while True:
        file = os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # perhaps by a child of a killed process, which has not died yet
            say("another export writes this archive; waiting for it to end")
            fcntl.flock(file, fcntl.LOCK_EX)
        if partial.exists() and partial.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return file
        file.close()  # meanwhile it was renamed into place
