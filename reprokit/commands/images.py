"""`reprokit images`."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from reprokit.commands import _options as options
from reprokit.formatting import counted
from reprokit.tables import table
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.engine import Engine


def images(
    digest: bool = options.flag("--digest", "Show the digest that is the same on all engines; reads images whole."),
    as_json: options.Json = False,
) -> None:
    """List the images of recipes: size, age, built here or trusted, and the containers that use them."""
    from reprokit.engine import Engine
    from reprokit.formatting import size

    engine = Engine.connect()
    rows = _rows(engine)
    if digest:
        rows = [row for row in rows if _add_digest(engine, row)]
    if as_json:
        dump(rows)
    elif not rows:
        echo("no images; `reprokit build NAME` makes one", err=True)
    else:
        shown = [
            (
                row["name"].removeprefix("reprokit/"),  # as other verbs take it
                row["digest"] if digest else row["id"][7:19],
                size(row["bytes"]),
                _age(row["created"]),
                row["state"],
                str(row["containers"]),
            )
            for row in rows
        ]
        table(("name", "digest" if digest else "id", "size", "age", "state", "uses"), shown, words=(0, 4))
        echo("sizes include shared layers; `reprokit clean` removes what nothing needs", err=True)


def _add_digest(engine: Engine, row: dict[str, Any]) -> bool:
    """Add the digest to the row. False if the image was removed since it was listed."""
    from reprokit.errors import ReprokitError
    from reprokit.verify import layers

    try:
        row["digest"] = layers.digest(layers.ImageInEngine.of(engine, row["name"]))
    except ReprokitError:
        if engine.image(row["name"]):
            raise
        return False
    return True


def _age(created: str) -> str:
    days = (datetime.now(timezone.utc) - datetime.fromisoformat(created)).days
    return counted(days, "day") if days > 0 else "today"


def _rows(engine: Any) -> list[dict[str, Any]]:
    """One mapping a name. Of names and labels only the state of the ID is believed."""
    from reprokit.image import trust
    from reprokit.image.entries import full_id
    from reprokit.image.labels import kind_of_name
    from reprokit.image.made import names_of

    known = trust.entries()
    used = [full_id(container["ImageID"]) for container in engine.containers([])]
    rows = []
    for image in engine.images([]):
        one = full_id(image["Id"])
        for name in names_of(image):
            if one in known or kind_of_name(name) == "recipe":
                rows.append(
                    {
                        "name": name,
                        "id": one,
                        "bytes": image["Size"],
                        "created": datetime.fromtimestamp(image["Created"], timezone.utc).isoformat(),
                        "state": known[one].state if one in known else "unverified",
                        "containers": used.count(one),
                    }
                )
    return sorted(rows, key=lambda row: row["name"])
