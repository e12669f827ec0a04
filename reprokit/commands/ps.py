"""`reprokit ps`."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from reprokit.commands import _options as options
from reprokit.formatting import counted
from reprokit.tables import table
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.engine import Engine


def ps(as_json: options.Json = False, on: options.On = None) -> None:
    """List reprokit's containers."""
    with options.engine_on(on) as engine:
        rows = _rows(engine)
    if as_json:
        dump(rows)
    elif not rows:
        echo("no containers; `reprokit run NAME -- CMD` creates one", err=True)
    else:
        _show(rows)


def _rows(engine: Engine) -> list[dict[str, Any]]:
    """One mapping a container.

    `stale`: the recipe's image was rebuilt since then, or is not what its recipe and lock would give now. None where
    the image was removed, or where the recipe, or a file that this names, is not here.
    """
    from reprokit.container import names, services
    from reprokit.container.lifecycle import staleness

    images: dict[str, str | None] = {}
    here: dict[str, names.ContainerOrigin | None] = {}
    uid = engine.host.caller().uid
    beside = services.known(engine)
    found: list[dict[str, Any]] = []
    for container in names.known_containers(engine):
        if container.label not in images:
            image = engine.image(f"reprokit/{container.label}")
            images[container.label] = image["Id"] if image else None
        current = images[container.label]
        settings = container.settings
        if container.recipe not in here:
            here[container.recipe] = names.here(engine, container.recipe)[0]
        origin = here[container.recipe]
        own = container.owner == uid
        target = names.target_of(container) if own and current == container.image else None
        older = staleness(engine, target, engine.container(container.name)) if target else None
        unknown = current is None or bool(older and older.unknown)
        unknown = unknown or (own and current == container.image and target is None)
        found.append(
            {
                "name": container.name,
                "recipe": container.recipe,
                "variant": container.variant,
                "state": container.state,
                "services": {
                    name: {"state": listed["State"], "image": listed["ImageID"]}
                    for name, listed in sorted(beside.get(container.name, {}).items())
                },
                "gpus": settings.gpus,
                "gpus_through": settings.rung,
                "ports": [f"{p.address}:{p.host}->{p.container}/{p.protocol}" for p in settings.ports],
                "mounts": [f"{m.source}:{m.target}{':ro' if m.read_only else ''}" for m in settings.mounts],
                "network": settings.network,
                "created": datetime.fromtimestamp(container.created, timezone.utc).isoformat(),
                "image": container.image,
                "workspace": names.workspace_of(settings),
                "recipe_file": settings.recipe_file,
                "checkout": names.checkout(settings),
                "here": bool(origin and origin.made(settings)),
                "stale": None if unknown else current != container.image or older is not None,
                "image_removed": current is None,
                "own": own,
            }
        )
    return found


def _show(found: list[dict[str, Any]]) -> None:
    rows = []
    for row in found:
        unknown = "image removed" if row["image_removed"] else "image perhaps old"
        state = row["state"] + {False: "", True: ", old image"}.get(row["stale"], f", {unknown}")
        rows.append(
            (
                row["name"],
                f"{row['recipe']}:{row['variant']}\n{'here' if row['here'] else row['checkout']}",
                "\n".join([state if row["own"] else f"{state}, another user's", *_services(row)]),
                row["gpus"],
                "\n".join(p.removesuffix("/tcp") for p in row["ports"]),
                "\n".join(row["mounts"]),
                _age(row["created"]),
            )
        )
    table(("name", "recipe, checkout", "state", "GPUs", "ports", "mounts", "created"), rows)


def _services(row: dict[str, Any]) -> list[str]:
    return [f"service {name}: {service['state']}" for name, service in row["services"].items()]


def _age(created: str) -> str:
    seconds = time.time() - datetime.fromisoformat(created).timestamp()
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} ago"
    return "just now"
