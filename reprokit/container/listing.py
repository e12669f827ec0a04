"""The containers of a user, with their state."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from reprokit.container import names
from reprokit.container.lifecycle import staleness
from reprokit.engine import Engine


def listed(engine: Engine, every: bool) -> list[dict[str, Any]]:
    """One row for each container of the caller, or of `every` user.

    `stale`: the recipe's image was rebuilt since, or differs from its recipe and lock. None if the image was removed,
    or the recipe or one of its files is missing.
    """
    images: dict[str, str | None] = {}
    origins: dict[str, names.ContainerOrigin | None] = {}
    uid = engine.host.caller().uid
    rows: list[dict[str, Any]] = []
    for container in names.known_containers(engine):
        if not (every or container.owner == uid):
            continue
        if container.label not in images:
            images[container.label] = engine.image_id(f"reprokit/{container.label}") or None
        current = images[container.label]
        settings = container.settings
        if container.recipe not in origins:
            origins[container.recipe] = names.origin_here(engine, container.recipe)[0]
        origin = origins[container.recipe]
        own = container.owner == uid
        target = names.target_of(container) if own and current == container.image else None
        older = staleness(engine, target, engine.container(container.name)) if target else None
        unknown = current is None or bool(older and older.unknown)
        unknown = unknown or (own and current == container.image and target is None)
        rows.append(
            {
                "name": container.name,
                "recipe": container.recipe,
                "variant": container.variant,
                "state": container.state,
                "gpus": settings.gpus,
                "gpus_through": settings.rung,
                "ports": [f"{p.address}:{p.host}->{p.container}/{p.protocol}" for p in settings.ports],
                "mounts": [f"{m.source}:{m.target}{':ro' if m.read_only else ''}" for m in settings.mounts],
                "network": settings.network,
                "created": datetime.fromtimestamp(container.created, timezone.utc).isoformat(),
                "image": container.image,
                "workspace": settings.workspace,
                "recipe_file": settings.recipe_file,
                "checkout": names.checkout(settings),
                "here": bool(origin and origin.made(settings)),
                "stale": None if unknown else current != container.image or older is not None,
                "image_removed": current is None,
                "own": own,
            }
        )
    return rows
