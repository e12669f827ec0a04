"""Workspaces: the host folders that containers see, and the copies of reprokit's own workspaces.

A bundled workspace is copied once, then kept up to date with the installed reprokit. A file is renewed while it is
unchanged since it was copied; what the user changed, added or deleted stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from reprokit import config, paths
from reprokit.errors import UsageError
from reprokit.recipe.find import Target
from reprokit.untrusted.files import Folder

Say = Callable[[str], None]

# Not copied: it is built again from the rest, and fits no other machine.
BUILD_OUTPUT = ("__pycache__", "build", "*.egg-info", "*.so", ".pytest_cache")
_LARGEST = 64 << 20  # bytes of a file that is compared; reprokit's own are below 1 MiB


def locate(name: str) -> Path:
    """The host folder of a workspace, which may not exist yet.

    The first that exists: `./workspaces/NAME`, NAME below the user's `workspace_roots`, NAME below `paths.home()`. A
    new one goes below the first root, else below `paths.home()`. Raises UsageError where it is behind a link: in a
    stranger's checkout the link could lead anywhere, and the engine would mount its target.
    """
    here = Path.cwd() / "workspaces"
    roots = [here, *config.workspace_roots(), paths.home() / "workspaces"]
    for root in roots:
        folder = root / name
        link = next((p for p in (here, folder) if folder.is_relative_to(p) and p.is_symlink()), None)
        if link and os.path.lexists(folder):
            raise UsageError(
                f"the workspace {name} is behind a link, which is not followed",
                str(link),
                f"remove the link; to use another disk, list a folder on it under `workspace_roots` in "
                f"{paths.config_file()}",
            )
        if folder.is_dir():
            return folder
    return roots[1] / name


def prepare(target: Target, say: Say) -> Path:
    """The target's workspace with the recipe's folders in it; missing ones are made, owned by the caller.

    A bundled workspace is copied first, and renewed later. Raises UsageError.
    """
    folder = locate(target.workspace)
    keep_up(target.workspace, say)
    try:
        if not folder.is_dir():
            _make(folder, paths.bundled_workspace(target.workspace))
        with Folder(folder) as opened:
            for mount in target.variant.mounts:
                with contextlib.suppress(NotADirectoryError):  # the recipe may name a file
                    opened.make(mount.source)
    except OSError as error:
        raise UsageError(
            f"cannot make the workspace: {error.strerror}", str(folder), "choose another folder with REPROKIT_HOME"
        ) from None
    return folder.resolve()


def keep_up(name: str, say: Say) -> None:
    """Renew a copy of a bundled workspace."""
    folder, original = locate(name), paths.bundled_workspace(name)
    if folder.is_dir() and original is not None and original != folder:
        renew(folder, original, say)


def _make(folder: Path, original: Path | None) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    if original is None:
        folder.mkdir(exist_ok=True)
    else:
        copy(original, folder)


def copy(original: Path, folder: Path) -> None:
    """Copy into a temporary folder and rename it, so that no partial copy becomes a workspace. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        copied = Path(temporary) / folder.name
        shutil.copytree(original, copied, ignore=shutil.ignore_patterns(*BUILD_OUTPUT))
        _write_record(folder, _digests(original))
        copied.rename(folder)


def renew(folder: Path, original: Path, say: Say) -> None:
    """Update `folder` with what changed in `original` since it was copied; says what was renewed and what was kept.

    A folder that is no copy, or cannot be written, stays as it is.
    """
    try:
        copied = json.loads(_record(folder).read_bytes())
    except (OSError, ValueError):
        return
    current = _digests(original)
    if current == copied:
        return
    try:
        renewed, kept = _update(folder, original, copied, current)
        _write_record(folder, current)
    except OSError as error:
        say(f"the workspace {folder} is from another version of reprokit and cannot be renewed: {error.strerror}")
        return
    if renewed:
        say(f"workspace {folder}: {renewed} {'files' if renewed > 1 else 'file'} renewed from this version of reprokit")
    if kept:
        say(f"kept your changes, which differ from {original}: {', '.join(kept)}")


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
                    _replace(opened, name, original / name)
                else:
                    opened.remove(name)
                renewed += 1
            except (UsageError, FileExistsError, NotADirectoryError):  # a link, or a file where a folder should be
                kept.append(name)
    return renewed, kept


def _digest(folder: Folder, name: str) -> str | None:
    """None where the file does not exist, "" for what cannot be a file of reprokit's."""
    try:
        return hashlib.sha256(folder.read(name, _LARGEST)).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (UsageError, OSError):
        return ""


def _replace(folder: Folder, name: str, original: Path) -> None:
    with folder.replacing(name) as file:
        file.write(original.read_bytes())
        os.fchmod(file.fileno(), original.stat().st_mode & 0o777)


def _digests(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in sorted(_files(folder))}


def _files(folder: Path) -> Iterator[str]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_build_output(name)]
        for name in files:
            if not _is_build_output(name):
                yield (Path(root) / name).relative_to(folder).as_posix()


def _is_build_output(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in BUILD_OUTPUT)


def _record(folder: Path) -> Path:
    """The file with the SHA-256 of each original. It is beside the copy, where no container can write."""
    return folder.parent / f".{folder.name}.copied.json"


def _write_record(folder: Path, digests: dict[str, str]) -> None:
    with Folder(folder.parent) as opened, opened.replacing(_record(folder).name) as file:
        file.write(json.dumps(digests, indent=1).encode())
