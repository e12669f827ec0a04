"""The file beside a target that becomes the target when it is complete; one process writes it at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import IO

from reprokit.filelocks import acquire

# O_NONBLOCK: opening a planted pipe would block.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def partial_of(target: Path) -> Path:
    """The file that is written before it becomes `target`."""
    return target.with_name(f".{target.name}.partial")


def claimed(partial: Path) -> IO[bytes]:
    """Open and lock the partial file, which a killed process may have begun.

    Raises OSError, also if it is a link, which could lead to any file of the user's.
    """
    while True:
        file = os.fdopen(os.open(partial, _FLAGS, 0o666), "r+b")
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            file.close()
            raise OSError(errno.EEXIST, "not a regular file with one name", str(partial))
        # Perhaps a child of a killed process holds it, that has not died yet.
        acquire(file, "another export writes this file; waiting for it to end")
        with contextlib.suppress(FileNotFoundError):
            if partial.lstat().st_ino == found.st_ino:
                return file
        file.close()  # it was renamed to the target meanwhile
