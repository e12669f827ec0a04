"""Workspaces: the host folders that containers see, and the copies of reprokit's own workspaces.

A bundled workspace is copied once, then kept up to date with the installed reprokit. A file is renewed if it
is unchanged since it was copied; files that the user changed, added or deleted stay so.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from pydantic import TypeAdapter

from reprokit import config, paths
from reprokit.display import notify
from reprokit.errors import UsageError
from reprokit.host.disk import unwritable
from reprokit.recipe.find import Target
from reprokit.untrusted.files import Folder

CACHES = ("__pycache__", ".*_cache")  # of Python, pytest, ruff and mypy
# Not copied: builds recreate it, and it fits no other machine.
BUILD_OUTPUT = (*CACHES, "build", "*.egg-info", "*.so")
_DAY_S = 86400
_LARGEST = 64 << 20  # bytes of a file that is compared; reprokit's own are below 1 MiB


def mark(*parts: str, digits: int = 8) -> str:
    """Hex digits of a hash, which separate things of the same name."""
    return hashlib.sha256(os.fsencode("\0".join(parts))).hexdigest()[:digits]


def locate(name: str, recipe: Path) -> Path:
    """The host folder of the workspace of a recipe file, which may not exist yet.

    The first that exists: `./workspaces/NAME`, then a folder below the user's `workspace_roots`, then one in
    `paths.workspaces()`. A new one goes below the first root, else there. Recipes of the same name in two checkouts
    never share a folder: outside the current folder, NAME alone is for reprokit's own recipe. Raises UsageError if
    the folder is behind a link: in a stranger's checkout the link could lead anywhere, and the engine would mount its
    target.
    """
    local = Path.cwd() / "workspaces"
    own = name if paths.is_bundled(recipe) else f"{name}-{mark(str(recipe), digits=12)}"
    folders = [local / name, *(root / own for root in _roots())]
    for folder in folders:
        link = next((p for p in (local, folder) if folder.is_relative_to(p) and p.is_symlink()), None)
        if link and os.path.lexists(folder):
            raise UsageError(
                f"the workspace {name} is behind a link, which is not followed",
                str(link),
                f"remove the link; to use another disk, list a folder on it under `workspace_roots` in "
                f"{paths.config_file()}",
            )
        if folder.is_dir():
            return folder
    return folders[1]


def _roots() -> list[Path]:
    return [*config.workspace_roots(), paths.workspaces()]


def prepare(target: Target) -> Path:
    """The target's workspace with the recipe's folders in it; missing ones are made, owned by the caller.

    A bundled workspace is copied first, and renewed later. Raises UsageError, and as `unwritable`.
    """
    folder = locate(target.workspace, target.path)
    keep_up(target.workspace, target.path)
    try:
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            if original := paths.bundled_workspace(target.workspace):
                copy(original, folder)
            else:
                folder.mkdir(exist_ok=True)
            made = folder.resolve()
            notify(f"made the workspace {made}")
            move = f"mv {shlex.quote(str(made))} {shlex.quote(f'workspaces/{target.workspace}')}"
            notify(f"to have it in the current folder: mkdir -p workspaces && {move}")
        with Folder(folder) as opened:
            for mount in target.variant.mounts:
                with contextlib.suppress(NotADirectoryError):  # the recipe may name a file
                    opened.make(mount.source)
    except OSError as error:
        raise unwritable(error, "the workspace", folder, "choose another folder with REPROKIT_HOME") from None
    return folder.resolve()


def keep_up(name: str, recipe: Path) -> None:
    """Renew a copy of a bundled workspace. A checkout's folder is no copy: copies are only below the user's roots."""
    folder, original = locate(name, recipe), paths.bundled_workspace(name)
    ours = folder.parent.resolve() in [root.resolve() for root in _roots()]
    if ours and folder.is_dir() and original is not None and original != folder:
        renew(folder, original)


def copy(original: Path, folder: Path) -> None:
    """Copy into a temporary folder and rename it, so that no partial copy becomes a workspace. Raises OSError.

    A copy that another process made meanwhile is kept.
    """
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        copied = Path(temporary) / folder.name
        shutil.copytree(original, copied, ignore=shutil.ignore_patterns(*BUILD_OUTPUT))
        _write_record(folder, _digests(original))
        try:
            copied.rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise


def renew(folder: Path, original: Path) -> None:
    """Update `folder` with the changes of `original` since the copy; reports renewed and kept files.

    A folder that is no copy, or cannot be written, stays as it is.
    """
    copied = _copied(folder)
    if copied is None:
        return
    current = _digests(original)
    if current == copied:
        return
    try:
        renewed, kept = _update(folder, original, copied, current)
        _write_record(folder, current)
    except OSError as error:
        notify(f"the workspace {folder} is from another version of reprokit and cannot be renewed: {error.strerror}")
        return
    if renewed:
        notify(
            f"workspace {folder}: {renewed} {'files' if renewed > 1 else 'file'} renewed from this version of reprokit"
        )
    if kept:
        notify(f"kept your changes, which differ from {original}: {', '.join(kept)}")


@dataclass(frozen=True)
class UnusedCopy:
    """A folder beside the workspaces that reprokit can make again; `size` in bytes."""

    path: Path
    why: str
    size: int


def unused_copies(mounted: Collection[Path]) -> list[UnusedCopy]:
    """Unchanged copies of bundled workspaces that are not `mounted`, and leftovers of interrupted copies."""
    copies = []
    for root in [*config.workspace_roots(), paths.workspaces()]:
        for original in _bundled():
            folder = root / original.name
            if folder.resolve() not in mounted and not folder.is_symlink() and (size := _unchanged(folder)) is not None:
                copies.append(UnusedCopy(folder, "an unchanged copy of reprokit's own workspace", size))
            for part in root.glob(f".{original.name}-????????"):
                if part.is_dir() and not part.is_symlink() and time.time() - part.stat().st_mtime > _DAY_S:
                    copies.append(UnusedCopy(part, "a part of an interrupted copy", _size(part)))
    return copies


def remove_copy(copy: UnusedCopy) -> bool:
    """Remove the folder and the record of its originals; returns whether it is gone."""
    shutil.rmtree(copy.path, ignore_errors=True)
    if not copy.path.exists():
        _record(copy.path).unlink(missing_ok=True)
    return not copy.path.exists()


def _bundled() -> list[Path]:
    return [folder for folder in sorted((paths.data_root() / "workspaces").glob("*")) if folder.is_dir()]


def _unchanged(folder: Path) -> int | None:
    """The size of a copy if all its files are unchanged, apart from build output; else None."""
    copied = _copied(folder)
    if copied is None:
        return None
    try:
        with Folder(folder) as opened:
            sizes = {path.removeprefix("./"): size for path, _, size in opened.entries(".")}
            files = {path for path in sizes if not any(map(is_build_output, path.split("/")))}
            same = files == copied.keys() and all(_digest(opened, name) == digest for name, digest in copied.items())
            return sum(sizes.values()) if same else None
    except (OSError, UsageError):
        return None


def _size(folder: Path) -> int:
    return sum((Path(root) / name).lstat().st_size for root, _, files in os.walk(folder) for name in files)


def _update(folder: Path, original: Path, copied: dict[str, str], current: dict[str, str]) -> tuple[int, list[str]]:
    renewed, kept = 0, []
    with Folder(folder) as opened:
        for name in sorted(copied.keys() | current.keys()):
            digest = _digest(opened, name)
            if digest == current.get(name):
                continue
            if digest != copied.get(name):
                kept.append(name)
                continue
            try:
                if name in current:
                    with opened.replacing(name) as file:
                        file.write((original / name).read_bytes())
                        os.fchmod(file.fileno(), (original / name).stat().st_mode & 0o777)
                else:
                    opened.remove(name)
                renewed += 1
            except (UsageError, FileExistsError, NotADirectoryError):  # a link, or a file in place of a folder
                kept.append(name)
    return renewed, kept


def _digest(folder: Folder, name: str) -> str | None:
    """The SHA-256; None if the file is missing, "" if it cannot be a file of reprokit."""
    try:
        return hashlib.sha256(folder.read(name, _LARGEST)).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (UsageError, OSError):
        return ""


def _digests(folder: Path) -> dict[str, str]:
    digests = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not is_build_output(name)]
        for file in (Path(root) / name for name in files if not is_build_output(name)):
            digests[file.relative_to(folder).as_posix()] = hashlib.sha256(file.read_bytes()).hexdigest()
    return dict(sorted(digests.items()))


def is_build_output(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in BUILD_OUTPUT)


def is_cache(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in CACHES)


def _record(folder: Path) -> Path:
    """The file with the SHA-256 of each original. It is beside the copy, where no container can write."""
    return folder.parent / f".{folder.name}.copied.json"


def _copied(folder: Path) -> dict[str, str] | None:
    """The SHA-256 of each original when it was copied; None for a folder that is no copy."""
    try:
        with Folder(folder.parent) as opened:
            return TypeAdapter(dict[str, str]).validate_json(opened.read(_record(folder).name, _LARGEST))
    except (OSError, ValueError, UsageError):
        return None


def _write_record(folder: Path, digests: dict[str, str]) -> None:
    with Folder(folder.parent) as opened, opened.replacing(_record(folder).name) as file:
        file.write(json.dumps(digests, indent=1).encode())
