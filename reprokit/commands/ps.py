"""`reprokit ps`."""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import typer

from reprokit.untrusted.text import console, dump, echo

if TYPE_CHECKING:
    from reprokit.engine import Engine


def ps(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List reprokit's containers."""
    from reprokit.engine import Engine

    rows = _rows(Engine.connect())
    if as_json:
        dump(rows)
    elif not rows:
        echo("no containers; `reprokit run NAME -- CMD` creates one", err=True)
    else:
        _show(rows)


def _rows(engine: Engine) -> list[dict[str, Any]]:
    """One mapping a container. `stale`: the recipe's image was rebuilt since then (None: it was removed)."""
    from reprokit.container import names

    images: dict[str, str | None] = {}
    found: list[dict[str, Any]] = []
    for container in names.known_containers(engine):
        if container.label not in images:
            image = engine.image(f"reprokit/{container.label}")
            images[container.label] = image["Id"] if image else None
        current = images[container.label]
        settings = container.settings
        found.append(
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
                "stale": None if current is None else current != container.image,
                "own": container.owner == os.getuid(),
            }
        )
    return found


def _show(found: list[dict[str, Any]]) -> None:
    """A table on standard output, as wide as the terminal."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("NAME", "RECIPE", "STATE", "GPUS", "PORTS", "MOUNTS", "CREATED"):
        table.add_column(column, overflow="fold")
    for row in found:
        state = row["state"] + ("" if row["stale"] is False else ", old image" if row["stale"] else ", image removed")
        table.add_row(
            row["name"],
            f"{row['recipe']}:{row['variant']}",
            state if row["own"] else f"{state}, another user's",
            row["gpus"],
            "\n".join(p.removesuffix("/tcp") for p in row["ports"]),
            "\n".join(row["mounts"]),
            _age(row["created"]),
        )
    console(width=200).print(table)


def _age(created: str) -> str:
    seconds = time.time() - datetime.fromisoformat(created).timestamp()
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
