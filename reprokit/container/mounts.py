"""The mounts of a container: the workspace, and those of the user.

The engine looks up a mount's source by its path at every start, so no path that a container can write is a source.
The recipe's other folders are links inside the container.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from reprokit.engine import Engine
from reprokit.engine.failures import address_source
from reprokit.engine.info import ContainerMount
from reprokit.errors import EngineError, UsageError
from reprokit.host.mounts import BindMount, own_container
from reprokit.recipe.find import Target

WORKSPACE = "/workspace"


def links_of(target: Target, mounts: Iterable[BindMount]) -> dict[str, str]:
    """The links for the recipe's folders of the workspace: path in the container, and the link's target.

    A user's mount at or above that path replaces the link.
    """
    own = [mount.target for mount in mounts if mount.target != WORKSPACE]
    return {
        folder.target: str(PurePosixPath(WORKSPACE, folder.source))
        for folder in target.variant.mounts
        if not any(PurePosixPath(folder.target).is_relative_to(path) for path in own)
    }


def require_no_link(name: str, target: Target, old: tuple[BindMount, ...], new: tuple[BindMount, ...]) -> None:
    """Raises UsageError if a new mount would be at one of the recipe's links, through which engines mount."""
    links = links_of(target, old)
    for mount in new:
        if mount not in old and mount.target in links:
            raise UsageError(
                f"{name} has a link of the recipe at {mount.target}, where nothing can be mounted",
                hint=f"mount at another path, or `reprokit rm --force {name}` first, which deletes its files",
            )


def require_apart(mounts: Iterable[BindMount], others: Iterable[tuple[str, BindMount]]) -> None:
    """Raises UsageError if a container could replace the source of a mount by a link.

    `mounts` are those of the new container, `others` those of the user's other containers with their names.
    """
    named = [*(("", mount) for mount in mounts), *others]
    for name, outer in named:
        for other, inner in named:
            if _below(inner.source, outer.source) and not outer.read_only and not (name and other):
                container = f"the container {name}" if name else "the container"
                inside = PurePosixPath(inner.source).relative_to(outer.source)
                raise UsageError(
                    f"{container} could replace {inner.source}, as it can write to {outer.source}",
                    hint=f"`reprokit rm {name or other}` first, or mount with :ro"
                    if name or other
                    else f"mount {outer.source} with :ro, or omit {inner.source}, which is {outer.target}/{inside}",
                )


def as_engine_paths(engine: Engine, mounts: Iterable[BindMount]) -> tuple[BindMount, ...]:
    """`mounts` with their sources as the engine names them. Raises EngineError if it cannot see a source.

    The engine may run outside the user's own container, or on another machine.
    """
    if not engine.host.name and re.match(r"(tcp|ssh|https?)://(?!localhost\b|127\.|\[::1\])", engine.url):
        raise EngineError(
            "the engine runs on another machine and cannot mount folders of this one",
            engine.url,
            f"run reprokit there, or take a local engine: the address is from {address_source()}",
        )
    own = own_container(engine.host.mountinfo())
    # An engine without this container runs inside it, and sees the same paths.
    outside = engine.container(own) if own else None
    if outside is None:
        return tuple(mounts)
    return tuple(translate(mount, outside.mounts) for mount in mounts)


def translate(mount: BindMount, own_mounts: Iterable[ContainerMount]) -> BindMount:
    """Replace a source inside the user's own container by the host's path for it. Raises EngineError."""
    source = PurePosixPath(mount.source)
    deepest = max(
        (own for own in own_mounts if source.is_relative_to(own.target)),
        key=lambda own: len(own.target),
        default=None,
    )
    if deepest is None:
        raise EngineError(
            f"{mount.source} is in the container that you are logged in to, and the engine outside cannot mount it at "
            f"{mount.target}",
            hint="use a folder that the machine mounts into that container; REPROKIT_HOME moves workspaces to one",
        )
    return replace(mount, source=str(PurePosixPath(deepest.source) / source.relative_to(deepest.target)))


def _below(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder) and path != folder
