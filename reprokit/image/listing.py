"""The images of an engine: those of recipes with their state, and what their blocks take."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

from reprokit.engine import Engine
from reprokit.image import trust
from reprokit.image.entries import full_id
from reprokit.image.labels import image_name, kind_of_name
from reprokit.image.made import names_of
from reprokit.image.sizes import SizedImage, freed, sized_image
from reprokit.recipe.find import is_recipe, target


def listed(engine: Engine) -> list[dict[str, Any]]:
    """One row for each name of a recipe's image. Names and labels can be forged, so only the ID decides the state."""
    entries = trust.entries()
    used = [full_id(container["ImageID"]) for container in engine.containers([])]
    rows = []
    for image in engine.images([]):
        image_id = full_id(image["Id"])
        entry = entries.get(image_id)
        for name in names_of(image):
            if entry or kind_of_name(name) == "recipe":
                rows.append(
                    {
                        "name": name,
                        "id": image_id,
                        "bytes": image["Size"],
                        "created": datetime.fromtimestamp(image["Created"], timezone.utc).isoformat(),
                        "state": entry.state if entry else "unverified",
                        "how": entry.how if entry else None,
                        "time": entry.time if entry else None,
                        "verified": entry.verified if entry else "",
                        "containers": used.count(image_id),
                    }
                )
    return sorted(rows, key=lambda row: row["name"])


def id_of(engine: Engine, name: str) -> str | None:
    """The ID of a recipe's image, or of an image by name or ID; None if the engine has none and it is no full ID."""
    image = engine.image(image_name(target(name)) if is_recipe(name) else name)
    if image is None and re.fullmatch(r"sha256:[0-9a-f]{64}", name):
        return name
    return str(image["Id"]) if image else None


def sized(engine: Engine, image_id: str, name: str) -> SizedImage:
    """The blocks of an image with their bytes."""
    return sized_image(name, _layers(engine, image_id), engine.history(image_id))


def freed_by_removing(engine: Engine, image_id: str, image: SizedImage) -> tuple[int, int]:
    """Bytes that removing the image frees, and bytes that untagged images hold then, such as stages of its build.

    All images of the engine are compared, not only those of recipes.
    """
    named: list[SizedImage] = []
    untagged: list[SizedImage] = []
    for other in engine.images([]):
        if other["Id"] != image_id and tuple(_layers(engine, other["Id"])[:1]) == image.layers[:1]:
            (named if names_of(other) else untagged).append(sized(engine, other["Id"], other["Id"]))
    now = freed(image, [*named, *untagged])
    return now, freed(image, named) - now


def _layers(engine: Engine, image_id: str) -> list[str]:
    return ((engine.image(image_id) or {}).get("RootFS") or {}).get("Layers") or []
