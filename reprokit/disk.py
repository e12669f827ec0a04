"""Room on a disk: looked at before something is written, and missed afterwards."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from reprokit.errors import SourceError
from reprokit.formatting import size as in_words


def need_space(folder: Path, needed: int) -> None:
    """Raises SourceError where fewer than `needed` bytes are free in a folder."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise SourceError(f"{in_words(needed)} are to be written, and {in_words(free)} are free", str(folder))


def ran_out(error: OSError) -> bool:
    """Whether a disk, or what the user may take of it, was full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
