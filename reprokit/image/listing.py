"""The images of an engine: those of recipes with their state, and the bytes of their blocks."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

from reprokit.engine import Engine
from reprokit.image import trust
from reprokit.image.labels import image_name, kind_of_name
from reprokit.image.sizes import SizedImage, freed, sized_image
from reprokit.recipe.find import is_recipe, target


def listed(engine: Engine) -> list[dict[str, Any]]:
    """One row for each name of a recipe's image. Names and labels can be forged, so only the ID decides the state."""
    entries = trust.entries()
    used = [container.image for container in engine.containers([])]
    rows = []
    for image in engine.images([]):
        entry = entries.get(image.id)
        for name in image.names:
            if entry or kind_of_name(name) == "recipe":
                rows.append(
                    {
                        "name": name,
                        "id": image.id,
                        "bytes": image.size,
                        "created": datetime.fromtimestamp(image.created, timezone.utc).isoformat(),
                        "state": entry.state if entry else "unverified",
                        "how": entry.how if entry else None,
                        "time": entry.time if entry else None,
                        "verified": entry.verified if entry else "",
                        "containers": used.count(image.id),
                    }
                )
    return sorted(rows, key=lambda row: row["name"])


def id_of(engine: Engine, name: str) -> str | None:
    """The ID of a recipe's image, or of an image by name or ID; None if the engine has none and it is no full ID."""
    image_id = engine.image_id(image_name(target(name)) if is_recipe(name) else name)
    return image_id or (name if re.fullmatch(r"sha256:[0-9a-f]{64}", name) else None)


def sized(engine: Engine, image_id: str, name: str) -> SizedImage:
    """The blocks of an image with their bytes."""
    return sized_image(name, engine.layers(image_id), engine.history(image_id))


def freed_by_removing(engine: Engine, image_id: str, image: SizedImage) -> tuple[int, int]:
    """Bytes that removing the image frees, and bytes that untagged images hold then, such as stages of its build.

    All images of the engine are compared, not only those of recipes.
    """
    named: list[SizedImage] = []
    untagged: list[SizedImage] = []
    for other in engine.images([]):
        if other.id != image_id and engine.layers(other.id)[:1] == image.layers[:1]:
            (named if other.names else untagged).append(sized(engine, other.id, other.id))
    now = freed(image, [*named, *untagged])
    return now, freed(image, named) - now
