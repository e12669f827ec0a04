"""Free disk space."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from reprokit.errors import EngineError
from reprokit.formatting import size

ENGINE_ROOT = "/var/lib/docker"
STORE_HINT = "free space there; `reprokit store gc` removes what no lock names, $REPROKIT_HOME moves the store"
ENGINE_HINT = "free space there: `docker image prune`, `docker builder prune`"


def free_bytes(folder: str | Path) -> int | None:
    """Bytes free to this user in a folder, or in the one that it would be made in; None where unknown."""
    path = Path(folder)
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def require_space(needed: int, folder: str | Path, free: int | None = None, hint: str = STORE_HINT) -> None:
    """Raises EngineError where fewer than `needed` bytes are free in a folder; passes where that is unknown.

    `free` is what another machine reports of its own folder.
    """
    free = free_bytes(folder) if free is None else free
    if free is not None and needed > free:
        raise too_small(needed, free, str(folder), hint)


def too_small(needed: int, free: int, where: str, hint: str = STORE_HINT) -> EngineError:
    """The error for a disk that is too small, or full."""
    return EngineError(f"not enough disk space: need {size(needed)}, {size(free)} free", where, hint)


def is_full(error: OSError) -> bool:
    """Whether a write failed because a disk, or the user's quota on it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
