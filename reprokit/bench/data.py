"""The data of benchmarks: locked files, fetched when a benchmark first reads them, and put into the workspace."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from reprokit.container.mounts import WORKSPACE
from reprokit.errors import UsageError
from reprokit.host import workspace
from reprokit.host.disk import is_full
from reprokit.image.lock.read import recipe_lock
from reprokit.recipe.find import Target
from reprokit.recipe.model import Input
from reprokit.supply.lock.model import PlainFile
from reprokit.untrusted.files import Folder

# Brings a locked file into the store and says where it lies there.
Fetch = Callable[[PlainFile], Path]


def place(target: Target, file: Input, fetch: Fetch) -> None:
    """Put the data that `file` names at its path in the workspace, unless it is there.

    It is a copy: what a program writes into it must not reach the store. Raises UsageError where the data is not
    locked, where the work folder is no part of the workspace, and where a program left a link or a file in the way.
    """
    inside = _in_workspace(target, file.path)
    root = workspace.locate(target.workspace)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with Folder(root) as folder:
            _put(folder, inside, target, file, fetch)
    except OSError as error:
        if is_full(error):
            raise
        raise UsageError(
            f"the data cannot be put into the workspace: {error.strerror}",
            str(root / inside),
            "remove what is in the way, or give the folder back to yourself",
        ) from None


def _put(folder: Folder, path: str, target: Target, file: Input, fetch: Fetch) -> None:
    if folder.has(path):
        return
    locked = next((f for f in recipe_lock(target).data if f.name == file.data), None)
    if locked is None:
        raise UsageError(
            f"the data {file.data} is not locked, so nobody knows which bytes it should be",
            str(target.path),
            f"`reprokit lock {target.label} --data` downloads it once and locks it",
        )
    with fetch(locked).open("rb") as source, folder.replacing(path) as copy:
        shutil.copyfileobj(source, copy, 1 << 20)


def _in_workspace(target: Target, path: str) -> str:
    """The path below the workspace."""
    inside = PurePosixPath(target.variant.workdir, path)
    if not inside.is_relative_to(WORKSPACE):
        raise UsageError(
            f"data cannot be put at {inside}, which is no part of the workspace",
            str(target.path),
            f"give {target.label} a `workdir` below {WORKSPACE}",
        )
    return str(inside.relative_to(WORKSPACE))
