"""`reprokit ps`."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated, Any

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.formatting import counted
from reprokit.tables import pairs, table
from reprokit.untrusted.terminal import dump, echo, escaped


def ps(
    container: Annotated[
        str | None,
        typer.Argument(
            metavar="[CONTAINER]",
            help="Show only this container, or those of this recipe, with ports and mounts.",
            autocompletion=completion.containers,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Also the containers of other users.")] = False,
    as_json: options.Json = False,
    on: options.On = None,
) -> None:
    """List your containers."""
    from reprokit.container import names
    from reprokit.container.listing import listed
    from reprokit.recipe.find import plain

    with options.engine_on(on) as engine:
        rows = listed(engine, every)
        if container is not None:
            text = plain(container)
            rows = [r for r in rows if text in (r["name"], r["recipe"], f"{r['recipe']}:{r['variant']}")]
            if not rows:
                names.chosen(engine, [container])  # raises the reason
    if as_json:
        dump(rows)
    elif not rows:
        echo("no containers; `reprokit run NAME -- CMD` creates one", err=True)
    elif container is not None:
        _show_details(rows)
    else:
        _show(rows)


def _show(containers: list[dict[str, Any]]) -> None:
    rows = [(r["name"], _state(r), "here" if r["here"] else "another", _age(r["created"])) for r in containers]
    table(("name", "state", "checkout", "created"), rows)


def _show_details(containers: list[dict[str, Any]]) -> None:
    for number, row in enumerate(containers):
        if number:
            echo()
        details = {
            "name": row["name"],
            "recipe": f"{row['recipe']}:{row['variant']}",
            "checkout": f"{row['checkout']}{' (here)' if row['here'] else ''}",
            "workspace": row["workspace"],
            "state": _state(row),
            "created": _age(row["created"]),
            "GPUs": f"{row['gpus']}, through {row['gpus_through']}" if row["gpus"] != "none" else "none",
            "network": row["network"],
            "ports": "\n".join(p.removesuffix("/tcp") for p in row["ports"]),
            "mounts": "\n".join(row["mounts"]),
        }
        pairs([(title, escaped(text, lines=True)) for title, text in details.items() if text])


def _state(row: dict[str, Any]) -> str:
    unknown = "image removed" if row["image_removed"] else "image perhaps old"
    state = row["state"] + {False: "", True: ", old image"}.get(row["stale"], f", {unknown}")
    return state if row["own"] else f"{state}, another user's"


def _age(created: str) -> str:
    seconds = time.time() - datetime.fromisoformat(created).timestamp()
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} ago"
    return "just now"
