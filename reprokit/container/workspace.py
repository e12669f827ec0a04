"""The host folders that a recipe's container sees.

The engine looks a mount's source up by its path at every start. So nothing that a container can write is one: only
the workspace as a whole, and what the user names. Other paths of a recipe are links inside the container.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from reprokit import config, paths
from reprokit.container import workspace_sync
from reprokit.container.spec import Mount
from reprokit.container.workspace_sync import Say
from reprokit.errors import UsageError
from reprokit.recipe.find import Target
from reprokit.untrusted.files import Folder

TARGET = "/workspace"


def workspace_mount(target: Target, say: Say) -> Mount:
    """The workspace at /workspace, with the recipe's folders in it; what is missing is made, as the caller.

    One that comes with reprokit is copied to the user's own place first, and kept up with it. Raises UsageError.
    """
    folder = config.workspace(target.workspace)
    keep_up(target.workspace, say)
    try:
        if not folder.is_dir():
            _make(folder, paths.bundled_workspace(target.workspace))
        with Folder(folder) as opened:
            for wanted in target.variant.mounts:
                with contextlib.suppress(NotADirectoryError):  # a file is as good
                    opened.make(wanted.source)
    except OSError as error:
        raise UsageError(
            f"cannot make the workspace: {error.strerror}", str(folder), "choose another place with REPROKIT_HOME"
        ) from None
    return Mount(str(folder.resolve()), TARGET)


def links_of(target: Target, mounts: Iterable[Mount]) -> dict[str, str]:
    """The recipe's folders of the workspace: path in the container, and what the link there leads to.

    A mount of the user's at or above that path comes first.
    """
    own = [mount.target for mount in mounts if mount.target != TARGET]
    return {
        wanted.target: str(PurePosixPath(TARGET, wanted.source))
        for wanted in target.variant.mounts
        if not any(PurePosixPath(wanted.target).is_relative_to(path) for path in own)
    }


def without_folders(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """`mounts` without the folders of the workspace that earlier versions mounted for recipes."""
    whole = next((mount.source for mount in mounts if mount.target == TARGET), None)
    return tuple(m for m in mounts if not whole or not _below(m.source, whole))


def require_no_link(name: str, target: Target, have: tuple[Mount, ...], want: tuple[Mount, ...]) -> None:
    """Raises UsageError where a new mount would be at a link of the recipe's, through which engines mount."""
    links = links_of(target, have)
    for mount in want:
        if mount not in have and mount.target in links:
            raise UsageError(
                f"{name} has a link of the recipe's at {mount.target}, where nothing can be mounted",
                hint=f"mount at another path, or `reprokit rm --force {name}` first, which drops its files",
            )


def _below(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder) and path != folder


def keep_up(name: str, say: Say) -> None:
    """Renew what an older reprokit copied to the user's place, as far as the user left it alone."""
    folder, original = config.workspace(name), paths.bundled_workspace(name)
    if folder.is_dir() and original is not None and original != folder:
        workspace_sync.renew(folder, original, say)


def require_source(mount: Mount) -> None:
    """Raises UsageError where the folder or file is missing, which an engine would make, or is behind a link."""
    source = Path(mount.source)
    if not source.exists():
        raise UsageError(
            f"nothing to mount at {mount.target}: there is no {mount.source}", hint=f"mkdir -p {mount.source}"
        )
    if source.resolve() != source:
        raise UsageError(
            f"{mount.source}, mounted at {mount.target}, is behind a link", hint=f"mount {source.resolve()} itself"
        )


def require_apart(mounts: Iterable[Mount], others: Iterable[tuple[str, Mount]]) -> None:
    """Raises UsageError where a container could replace the source of a mount by a link.

    `mounts` are those of the container to be, `others` those of the user's other containers with their names.
    """
    new = [("", mount) for mount in mounts]
    known = [*new, *others]
    for name, outer in known:
        for other, inner in known:
            if _below(inner.source, outer.source) and not outer.read_only and not (name and other):
                whose = f"the container {name}" if name else "the container"
                rest = PurePosixPath(inner.source).relative_to(outer.source)
                raise UsageError(
                    f"{whose} could replace {inner.source}, as it can write to {outer.source}",
                    hint=f"`reprokit rm {name or other}` first, or mount with :ro"
                    if name or other
                    else f"mount {outer.source} with :ro, or leave {inner.source} out: it is {outer.target}/{rest}",
                )


def _make(folder: Path, original: Path | None) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    if original is None:
        folder.mkdir(exist_ok=True)
    else:
        workspace_sync.copy(original, folder)
