"""Free disk space."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.formatting import size
from reprokit.untrusted.files import output_folder

ENGINE_ROOT = "/var/lib/docker"
# `amount` to free: a size, or "space".
STORE_HINT = "free {amount} there: `reprokit store gc` removes what no lock names, $REPROKIT_HOME moves the store"
ENGINE_HINT = "free {amount} there: `reprokit clean`, `docker image prune`"
# Errors of a wrong path; all others are errors of the disk.
_WRONG_PATH = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTEMPTY,
)  # fmt: skip


def free_bytes(folder: str | Path) -> int | None:
    """Bytes free to this user in a folder, or in its nearest existing parent; None if unknown."""
    path = Path(folder)
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def require_space(needed: int, folder: str | Path, free: int | None = None, hint: str = STORE_HINT) -> None:
    """Raises EngineError if fewer than `needed` bytes are free in a folder; passes if that is unknown.

    `free` is what another machine reports of its own folder.
    """
    free = free_bytes(folder) if free is None else free
    if free is not None and needed > free:
        raise too_small(needed, free, str(folder), hint)


def too_small(needed: int, free: int, where: str, hint: str = STORE_HINT) -> EngineError:
    """The error for a disk that is too small, or full; `hint` may name the `{amount}` to free."""
    missing = hint.format(amount=size(needed - free))
    return EngineError(f"not enough disk space: need {size(needed)}, {size(free)} free", where, missing)


def check_writable(path: Path, what: str, hint: str = "") -> None:
    """Raises EngineError if a path, or its nearest existing parent, is read-only.

    Raises UsageError if that parent is no folder.
    """
    nearest = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
    if nearest != path.absolute() and not nearest.is_dir():
        raise unwritable(NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)), what, nearest, hint)
    if not os.access(nearest, os.W_OK):
        raise EngineError(f"{what} cannot be written: {nearest} is read-only", str(path), hint)


def unwritable(error: OSError, what: str, path: Path, hint: str = "write it elsewhere") -> ReprokitError:
    """The error of a write that failed: UsageError for a path that was named wrongly, else EngineError.

    `hint` is for all but a full disk.
    """
    kind = UsageError if error.errno in _WRONG_PATH else EngineError
    message = f"{what} cannot be written: {error.strerror or error}"
    return kind(message, str(path), "free space there" if is_full(error) else hint)


def write_new(path: Path, text: str, what: str, hint: str, usual: bool = False) -> None:
    """Write a new file; a failure leaves no partial file. Raises as `unwritable`, also if it exists.

    A `usual` path is below the current folder; raises UsageError for a link in it.
    """
    try:
        with (
            output_folder(None if usual else path.parent, path.parent, "") as folder,
            os.fdopen(folder.open(path.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file,
        ):
            try:
                file.write(text.encode("utf-8"))
                file.flush()
            except OSError:
                folder.remove(path.name)
                raise
    except OSError as error:
        raise unwritable(error, what, path, hint) from None


def is_full(error: OSError) -> bool:
    """Whether a write failed because a disk, or the user's quota on it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
