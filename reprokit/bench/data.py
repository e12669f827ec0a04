"""The data of benchmarks: locked files, fetched when a benchmark first reads them, and put into the workspace."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from reprokit import paths
from reprokit.container.workspace import TARGET
from reprokit.errors import UsageError
from reprokit.image.locks import recipe_lock
from reprokit.recipe.find import Target
from reprokit.recipe.model import Input
from reprokit.supply.lock.model import PlainFile

# Brings a locked file into the store and says where it lies there.
Fetch = Callable[[PlainFile], Path]


def place(target: Target, file: Input, fetch: Fetch) -> None:
    """Put the data that `file` names at its path in the workspace, unless it is there.

    It is a copy: what a program writes into it must not reach the store. Raises UsageError where the data is not
    locked, or where the work folder is no part of the workspace.
    """
    at = _on_host(target, file.path)
    if at.exists():
        return
    locked = next((f for f in recipe_lock(target).data if f.name == file.data), None)
    if locked is None:
        raise UsageError(
            f"the data {file.data} is not locked, so nobody knows which bytes it should be",
            str(target.path),
            f"`reprokit lock {target.label} --data` downloads it once and locks it",
        )
    source = fetch(locked)
    at.parent.mkdir(parents=True, exist_ok=True)
    making = at.with_name(f"{at.name}.making")
    shutil.copyfile(source, making)
    making.replace(at)


def _on_host(target: Target, path: str) -> Path:
    inside = PurePosixPath(target.variant.workdir, path)
    if not inside.is_relative_to(TARGET):
        raise UsageError(
            f"data cannot be put at {inside}, which is no part of the workspace",
            str(target.path),
            f"give {target.label} a `workdir` below {TARGET}",
        )
    return paths.workspace(target.workspace).joinpath(*inside.relative_to(TARGET).parts)
