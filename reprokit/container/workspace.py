"""The host folders that a recipe's container sees."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from reprokit import paths
from reprokit.container.spec import Mount
from reprokit.errors import UsageError
from reprokit.recipe.find import Target

TARGET = "/workspace"
# Of a workspace that is copied: what is made again from the rest, and fits no other machine.
LEFT_OUT = ("__pycache__", "build", "*.egg-info", "*.so", ".pytest_cache")


def workspace_mounts(target: Target) -> tuple[Mount, ...]:
    """The workspace at /workspace and the recipe's folders of it; what is missing is made, as the caller.

    A workspace that comes with reprokit is copied to the user's own place first. Raises UsageError.
    """
    workspace = paths.workspace(target.workspace)
    if not workspace.is_dir():
        _make(workspace, paths.bundled_workspace(target.workspace))
    root = workspace.resolve()
    mounts = [Mount(str(root), TARGET)]
    for wanted in target.variant.mounts:
        source = (root / wanted.source).resolve()
        if not source.is_relative_to(root):
            raise UsageError(
                f"the recipe's mount {wanted.source} leads out of the workspace",
                str(root / wanted.source),
                "mount folders outside the workspace yourself, with -v",
            )
        if not source.exists():
            _make(source, None)
        mounts.append(Mount(str(source), wanted.target, wanted.read_only))
    return tuple(mounts)


def require_source(mount: Mount) -> None:
    """Raises UsageError where the folder or file is missing; an engine would make it, owned by root."""
    if not Path(mount.source).exists():
        raise UsageError(
            f"nothing to mount at {mount.target}: there is no {mount.source}", hint=f"mkdir -p {mount.source}"
        )


def _make(folder: Path, original: Path | None) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if original is None:
            folder.mkdir(parents=True, exist_ok=True)
            return
        # Copied beside and renamed: a copy that breaks off is not taken for a workspace.
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
            copy = Path(beside) / folder.name
            shutil.copytree(original, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
            copy.rename(folder)
    except OSError as error:
        raise UsageError(
            f"cannot make the workspace: {error.strerror}",
            str(folder),
            "choose another place with REPROKIT_HOME",
        ) from None
