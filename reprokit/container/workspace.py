"""The host folders that a recipe's container sees."""

from __future__ import annotations

from pathlib import Path

from reprokit import paths
from reprokit.container import copied
from reprokit.container.copied import Say
from reprokit.container.spec import Mount
from reprokit.errors import UsageError
from reprokit.recipe.find import Target

TARGET = "/workspace"


def workspace_mounts(target: Target, say: Say) -> tuple[Mount, ...]:
    """The workspace at /workspace and the recipe's folders of it; what is missing is made, as the caller.

    One that comes with reprokit is copied to the user's own place first, and kept up with it. Raises UsageError.
    """
    folder = paths.workspace(target.workspace)
    keep_up(target.workspace, say)
    if not folder.is_dir():
        _make(folder, paths.bundled_workspace(target.workspace))
    root = folder.resolve()
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


def keep_up(name: str, say: Say) -> None:
    """Renew what an older reprokit copied to the user's place, as far as the user left it alone."""
    folder, original = paths.workspace(name), paths.bundled_workspace(name)
    if folder.is_dir() and original is not None and original != folder:
        copied.renew(folder, original, say)


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
        else:
            copied.copy(original, folder)
    except OSError as error:
        raise UsageError(
            f"cannot make the workspace: {error.strerror}",
            str(folder),
            "choose another place with REPROKIT_HOME",
        ) from None
