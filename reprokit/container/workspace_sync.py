"""A workspace of reprokit's own in the user's place: copied once, then kept up with the installed reprokit.

A file is renewed while it is as it was copied; what the user changed, added or deleted stays as the user left it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from reprokit.errors import UsageError
from reprokit.supply.store import sha256_of
from reprokit.untrusted.files import Folder

Say = Callable[[str], None]

# Of a workspace that is copied: what is made again from the rest, and fits no other machine.
LEFT_OUT = ("__pycache__", "build", "*.egg-info", "*.so", ".pytest_cache")
_LARGEST = 64 << 20  # bytes of a file that is compared; ours are below 1 MiB


def copy(original: Path, folder: Path) -> None:
    """Beside and renamed: a copy that breaks off is not taken for a workspace. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
        made = Path(beside) / folder.name
        shutil.copytree(original, made, ignore=shutil.ignore_patterns(*LEFT_OUT))
        _remember(folder, _digests(original))
        made.rename(folder)


def renew(folder: Path, original: Path, say: Say) -> None:
    """Take over what changed in `original` since it was copied to `folder`; says what was, and what was not.

    A folder that is no copy, and one that cannot be written, stays as it is.
    """
    try:
        copied = json.loads(_record(folder).read_bytes())
    except (OSError, ValueError):
        return
    now = _digests(original)
    if now == copied:
        return
    try:
        renewed, kept = _take_over(folder, original, copied, now)
        _remember(folder, now)
    except OSError as error:
        say(f"the workspace {folder} is of another reprokit and cannot be renewed: {error.strerror}")
        return
    if renewed:
        say(f"the workspace {folder} follows this reprokit: {renewed} {'files' if renewed > 1 else 'file'} renewed")
    if kept:
        say(f"left as you changed them, and differing from this reprokit's {original}: {', '.join(kept)}")


def _take_over(folder: Path, original: Path, copied: dict[str, str], now: dict[str, str]) -> tuple[int, list[str]]:
    renewed, kept = 0, []
    with Folder(folder) as opened:
        for name in sorted(copied.keys() | now.keys()):
            here = _digest_here(opened, name)
            if here == now.get(name):
                continue
            if here != copied.get(name):
                kept.append(name)
                continue
            try:
                if name in now:
                    _renew(opened, name, original / name)
                else:
                    opened.remove(name)
                renewed += 1
            except (UsageError, FileExistsError, NotADirectoryError):  # a link or a file where a folder should be
                kept.append(name)
    return renewed, kept


def _digest_here(folder: Folder, name: str) -> str | None:
    """None where there is nothing, "" for what cannot be a file of reprokit's."""
    try:
        return hashlib.sha256(folder.read(name, _LARGEST)).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (UsageError, OSError):
        return ""


def _renew(folder: Folder, name: str, original: Path) -> None:
    with folder.replacing(name) as file:
        file.write(original.read_bytes())
        os.fchmod(file.fileno(), original.stat().st_mode & 0o777)


def _digests(folder: Path) -> dict[str, str]:
    return {name: sha256_of(folder / name) for name in sorted(_files(folder))}


def _files(folder: Path) -> Iterator[str]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _left_out(name)]
        for name in files:
            if not _left_out(name):
                yield (Path(root) / name).relative_to(folder).as_posix()


def _left_out(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in LEFT_OUT)


def _record(folder: Path) -> Path:
    """The SHA-256 of each file as it came from reprokit. Beside the copy: a container may write whatever is in it."""
    return folder.parent / f".{folder.name}.copied.json"


def _remember(folder: Path, digests: dict[str, str]) -> None:
    with Folder(folder.parent) as opened, opened.replacing(_record(folder).name) as file:
        file.write(json.dumps(digests, indent=1).encode())
