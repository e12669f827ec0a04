"""Unused containers that reprokit made."""

from __future__ import annotations

import os
from dataclasses import dataclass

from reprokit.container import lifecycle, names
from reprokit.container.names import RecipeContainer
from reprokit.engine import Engine
from reprokit.image import made, trust


@dataclass(frozen=True)
class LeftoverContainer:
    """`size` is that of its own files, in bytes."""

    id: str
    container: RecipeContainer
    why: str
    size: int


def leftovers(engine: Engine) -> list[LeftoverContainer]:
    """The caller's containers that do not run and whose image was rebuilt or removed.

    Only containers of images that were built here or are trusted: anyone can copy labels. Raises EngineError.
    """
    ours = made.entries(engine).keys() | trust.entries().keys()
    infos = {info.name: info for info in engine.containers([names.NAME], sizes=True)}
    unused = []
    for container in names.known_containers(engine):
        info = infos.get(container.name)
        if info is None or container.owner != os.getuid() or container.state not in ("created", "exited", "dead"):
            continue
        image = engine.image_id(f"reprokit/{container.label}")
        if info.image not in ours or image == container.image:
            continue
        why = "stopped, and its image was rebuilt" if image else "stopped, and its image was removed"
        unused.append(LeftoverContainer(info.id, container, why, info.size))
    return unused


def remove(engine: Engine, leftover: LeftoverContainer) -> bool:
    """Remove a container if unchanged since it was listed; return False if it is running. Raises EngineError."""
    return lifecycle.remove_stopped(engine, leftover.container.name, leftover.id)
