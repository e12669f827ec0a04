"""A workspace of reprokit's own in the user's place: copied once, then kept up with the installed reprokit.

A file is renewed while it is as it was copied; what the user changed, added or deleted stays as the user left it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from reprokit.supply.store import sha256_of

Say = Callable[[str], None]

# Of a workspace that is copied: what is made again from the rest, and fits no other machine.
LEFT_OUT = ("__pycache__", "build", "*.egg-info", "*.so", ".pytest_cache")


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
    for name in sorted(copied.keys() | now.keys()):
        place = folder / name
        here = _digest(place)
        if here == now.get(name):
            continue
        if here != copied.get(name) or not _has_folder(folder, name):
            kept.append(name)
        elif name in now:
            _write(place, (original / name).read_bytes(), (original / name).stat().st_mode)
            renewed += 1
        else:
            place.unlink()
            renewed += 1
    return renewed, kept


def _has_folder(root: Path, name: str) -> bool:
    """Whether the file's folder is there or can be made. Never through a link: a container may leave one."""
    folder = (root / name).parent
    if folder.resolve() != root.resolve() / Path(name).parent:
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        return False
    return True


def _digests(folder: Path) -> dict[str, str]:
    return {name: _digest(folder / name) or "" for name in sorted(_files(folder))}


def _files(folder: Path) -> Iterator[str]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _left_out(name)]
        for name in files:
            if not _left_out(name):
                yield (Path(root) / name).relative_to(folder).as_posix()


def _left_out(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in LEFT_OUT)


def _digest(path: Path) -> str | None:
    """None where there is nothing, "" for what is no plain file."""
    if path.is_symlink() or not path.is_file():
        return "" if os.path.lexists(path) else None
    return sha256_of(path)


def _record(folder: Path) -> Path:
    """The SHA-256 of each file as it came from reprokit. Beside the copy: a container may write whatever is in it."""
    return folder.parent / f".{folder.name}.copied.json"


def _remember(folder: Path, digests: dict[str, str]) -> None:
    _write(_record(folder), json.dumps(digests, indent=1).encode())


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Whole or not at all: a build in a container may read it meanwhile."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        beside = Path(file.name)
        try:
            file.write(content)
            file.close()
            beside.chmod(mode & 0o777)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
