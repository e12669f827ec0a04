"""`reprokit images`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit.commands import _options as options
from reprokit.formatting import counted
from reprokit.tables import table
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.engine import Engine
    from reprokit.image.sizes import SizedImage
    from reprokit.recipe.find import Target

images = typer.Typer(
    name="images",
    add_completion=False,
    rich_markup_mode=None,
)

_IMAGES = options.recipes("Images, or their recipes.", "IMAGE|NAME[:VARIANT]...")


@images.callback(invoke_without_command=True)
def list_(
    context: typer.Context,
    digest: bool = options.flag("--digest", "Show the digest that is the same on all engines; reads images whole."),
    as_json: options.Json = False,
) -> None:
    """List the images of recipes: size, age, built here or trusted, and the containers that use them.

    Its verbs show what the blocks of images cost, and trust images that were not built here.
    """
    if context.invoked_subcommand:
        return
    from reprokit.engine import Engine
    from reprokit.formatting import size
    from reprokit.image.listing import listed

    engine = Engine.connect()
    rows = listed(engine)
    if digest:
        rows = [row for row in rows if _add_digest(engine, row)]
    if as_json:
        dump(rows)
    elif not rows:
        echo("no images; `reprokit build NAME` makes one", err=True)
    else:
        shown = [
            (
                row["name"].removeprefix("reprokit/"),  # as an argument of other verbs
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


@images.command()
def size(
    names: Annotated[list[str], options.recipes("Recipes whose images are here.")],
    plot: options.Plot = None,
    as_json: options.Json = False,
) -> None:
    """Show what each block of images costs, what they share, and what removing one frees."""
    from reprokit.display import notify
    from reprokit.engine import Engine
    from reprokit.errors import UsageError
    from reprokit.image.labels import image_name
    from reprokit.image.listing import freed_by_removing, sized
    from reprokit.image.sizes import stored_together
    from reprokit.recipe.find import target

    engine = Engine.connect()
    targets = list({chosen.label: chosen for chosen in map(target, names)}.values())
    images: list[SizedImage] = []
    freed: list[tuple[int, int]] = []
    for chosen in targets:
        image_id = engine.image_id(image_name(chosen))
        if not image_id:
            hint = f"build it: `reprokit build {chosen.label}`"
            raise UsageError(f"{chosen.label} has no image on this engine", hint=hint)
        images.append(sized(engine, image_id, chosen.label))
        freed.append(freed_by_removing(engine, image_id, images[-1]))
    together = stored_together(images)
    if as_json:
        data = {image.name: _data(image, images, count) for image, count in zip(images, freed, strict=True)}
        dump({"images": data, "together": together})
    else:
        _print_sizes(images, freed, together)
        _print_apart(targets)
    if plot:
        from reprokit.results.plots import draw_sizes

        draw_sizes(images, plot)
        notify(f"drawn: {plot}")


@images.command()
def trust(names: Annotated[list[str], _IMAGES]) -> None:
    """Trust images: `build` accepts them as up to date, `run` and `bench` print no notice.

    Name an image that only a node has by its complete ID.
    """
    from reprokit.engine import Engine
    from reprokit.errors import UsageError
    from reprokit.image import trust as trusted_images
    from reprokit.image.listing import id_of

    engine = Engine.connect()
    ids = {name: id_of(engine, name) for name in names}
    for name, image_id in ids.items():
        if image_id is None:
            raise UsageError("no such image in the engine", name, "list images with `reprokit images`")
        trusted_images.record(engine, image_id, "trusted", "images trust", "" if engine.image(image_id) else "a node")
        echo(f"{name} is {trusted_images.state(image_id)} ({image_id[:19]})")


@images.command()
def revoke(names: Annotated[list[str], _IMAGES]) -> None:
    """Stop trusting images: they become unverified, and `build` builds them again."""
    from reprokit.engine import Engine
    from reprokit.errors import UsageError
    from reprokit.image import trust as trusted_images
    from reprokit.image.listing import id_of

    engine = Engine.connect()
    ids = {name: id_of(engine, name) or name for name in names}
    revoked = trusted_images.revoke(engine, ids.values())
    for name, image_id in ids.items():
        if image_id not in revoked:
            raise UsageError("the image was neither built here nor trusted", name, "list images with `reprokit images`")
        echo(f"{name} is unverified ({image_id[:19]})")


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


def _print_apart(targets: Sequence[Target]) -> None:
    """Name recipes whose images could share more if their locks were of the same day."""
    from reprokit.image.lock.beside import locked_apart

    if labels := " ".join(locked_apart(targets)):
        echo(f"would share more if they were locked together: `reprokit lock {labels} --update base --update apt`")


def _data(image: SizedImage, images: Sequence[SizedImage], freed: tuple[int, int]) -> dict[str, object]:
    shared = {other.name: _bytes(image, other) for other in images if other is not image}
    return {"blocks": image.blocks, "size": image.size, "shared": shared, "freed": freed[0], "untagged": freed[1]}


def _bytes(image: SizedImage, other: SizedImage) -> int:
    return sum(count for _, count in image.shared(other))


def _print_sizes(images: Sequence[SizedImage], freed: Sequence[tuple[int, int]], together: int) -> None:
    from reprokit.formatting import size as shown
    from reprokit.tables import table

    blocks = dict.fromkeys(block for image in images for block in image.blocks)
    rows = [[block, *(shown(i.blocks[block]) if block in i.blocks else "-" for i in images)] for block in blocks]
    rows.append(["size", *(shown(image.size) for image in images)])
    for other in images if len(images) > 1 else ():
        rows.append([f"shared with {other.name}", *("-" if i is other else shown(_bytes(i, other)) for i in images)])
    rows.append(["freed by removing it", *(shown(now) for now, _ in freed)])
    if any(held for _, held in freed):
        rows.append(["then by `docker image prune`", *(shown(held) if held else "-" for _, held in freed)])
    table(["block", *(image.name for image in images)], rows, words=(0,))
    if len(images) > 1:
        alone = sum(image.size for image in images)
        echo(f"together {shown(together)}; without sharing {shown(alone)}")
