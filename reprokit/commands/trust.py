"""`reprokit trust`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit.commands import _options as options
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.engine import Engine

trust = typer.Typer(
    name="trust",
    help="List images that were built here or are trusted; trust others.",
    add_completion=False,
    rich_markup_mode=None,
)

_IMAGES = options.recipes("Images, or their recipes.", "IMAGE|NAME[:VARIANT]...")


@trust.command("list")
def list_(as_json: options.Json = False) -> None:
    """List the images of recipes: built here, trusted or unverified, and since when."""
    from reprokit.engine import Engine
    from reprokit.image import trust as known
    from reprokit.image.labels import ImageLabels

    engine = Engine.connect()
    entries = known.entries()
    names: dict[str, list[str]] = {}
    for image in engine.images([]):
        if image["Id"] in entries or ImageLabels.read(image.get("Labels") or {}).recipe:
            names[image["Id"]] = [name for name in image.get("RepoTags") or () if name != "<none>:<none>"]
    rows: list[dict[str, Any]] = []
    for image_id in dict.fromkeys((*names, *entries)):
        entry = entries.get(image_id)
        how, at = (entry.how, entry.time) if entry else (None, None)
        state = entry.state if entry else "unverified"
        verified = entry.verified if entry else ""
        row: dict[str, Any] = {"id": image_id, "names": names.get(image_id, []), "state": state, "how": how, "time": at}
        rows.append({**row, "verified": verified})
    if as_json:
        dump(rows)
        return
    for row in rows:
        how = f"  {row['time']} by {row['how']}" if row["how"] else ""
        verdict = f"  verify: {row['verified']}" if row["verified"] else ""
        echo(f"{row['state']:<10}  {row['id'][7:19]}  {' '.join(row['names']) or '(no name)'}{how}{verdict}")


@trust.command()
def add(images: Annotated[list[str], _IMAGES]) -> None:
    """Trust images: `build` accepts them as up to date, `run` and `bench` print no notice.

    Name an image that only a node has by its complete ID.
    """
    from reprokit.engine import Engine
    from reprokit.errors import UsageError
    from reprokit.image import trust as known

    engine = Engine.connect()
    found = {name: _id(engine, name) for name in images}
    for name, image_id in found.items():
        if image_id is None:
            raise UsageError("no such image in the engine", name, "list images with `reprokit trust list`")
        known.record(engine, image_id, "trusted", "trust add", "" if engine.image(image_id) else "a node")
        echo(f"{name} is {known.state(image_id)} ({image_id[:19]})")


@trust.command()
def revoke(images: Annotated[list[str], _IMAGES]) -> None:
    """Stop trusting images: they become unverified, and `build` builds them again."""
    from reprokit.engine import Engine
    from reprokit.errors import UsageError
    from reprokit.image import trust as known

    engine = Engine.connect()
    found = {name: _id(engine, name) or name for name in images}
    gone = known.revoke(engine, found.values())
    for name, image_id in found.items():
        if image_id not in gone:
            raise UsageError(
                "the image was neither built here nor trusted", name, "list images with `reprokit trust list`"
            )
        echo(f"{name} is unverified ({image_id[:19]})")


def _id(engine: Engine, name: str) -> str | None:
    """The ID of a recipe's image, or of an image by name or ID; None if the engine has none and it is no full ID."""
    from reprokit.image.labels import image_name
    from reprokit.recipe.find import is_recipe, target

    image = engine.image(image_name(target(name)) if is_recipe(name) else name)
    if image is None and re.fullmatch(r"sha256:[0-9a-f]{64}", name):
        return name
    return str(image["Id"]) if image else None
