"""`reprokit size`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit.commands import _options as options
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.engine import Engine
    from reprokit.image.sizes import SizedImage
    from reprokit.recipe.find import Target


def size(
    names: Annotated[list[str], options.recipes("Recipes whose images are here.")],
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw a plot: .svg, .png or .pdf.")] = None,
    json: options.Json = False,
) -> None:
    """Show what each block of images costs, what they share, and what removing one frees."""
    from reprokit.display import notify
    from reprokit.engine import Engine
    from reprokit.errors import UsageError
    from reprokit.image.labels import image_name
    from reprokit.image.sizes import stored_together
    from reprokit.recipe.find import target

    engine = Engine.connect()
    targets = list({chosen.label: chosen for chosen in map(target, names)}.values())
    images: list[SizedImage] = []
    freed: list[tuple[int, int]] = []
    for chosen in targets:
        inspected = engine.image(image_name(chosen))
        if inspected is None:
            hint = f"build it: `reprokit build {chosen.label}`"
            raise UsageError(f"{chosen.label} has no image on this engine", hint=hint)
        images.append(_sized(engine, inspected["Id"], chosen.label))
        freed.append(_freed(engine, inspected["Id"], images[-1]))
    together = stored_together(images)
    if json:
        data = {each.name: _data(each, images, count) for each, count in zip(images, freed, strict=True)}
        dump({"images": data, "together": together})
    else:
        _print(images, freed, together)
        _print_apart(targets)
    if plot:
        from reprokit.results.size_plots import draw_sizes

        draw_sizes(images, plot)
        notify(f"drawn: {plot}")


def _print_apart(targets: Sequence[Target]) -> None:
    """Name the recipes that share less than they could, as their locks are of different days."""
    from reprokit.image.lock.beside import locked_apart

    if labels := " ".join(locked_apart(targets)):
        echo(f"would share more if they were locked together: `reprokit lock {labels} --update base --update apt`")


def _sized(engine: Engine, image_id: str, name: str) -> SizedImage:
    from reprokit.image.sizes import sized_image

    layers = ((engine.image(image_id) or {}).get("RootFS") or {}).get("Layers") or []
    return sized_image(name, layers, engine.history(image_id))


def _freed(engine: Engine, image_id: str, image: SizedImage) -> tuple[int, int]:
    """Bytes that removing the image frees, and bytes that untagged images hold then, such as stages of its build.

    All images of the engine are compared, not only those of recipes.
    """
    from reprokit.image.made import names_of
    from reprokit.image.sizes import freed

    first = image.layers[:1]
    named: list[SizedImage] = []
    untagged: list[SizedImage] = []
    for other in engine.images([]):
        layers = ((engine.image(other["Id"]) or {}).get("RootFS") or {}).get("Layers") or []
        if other["Id"] != image_id and tuple(layers[:1]) == first:
            (named if names_of(other) else untagged).append(_sized(engine, other["Id"], other["Id"]))
    now = freed(image, [*named, *untagged])
    return now, freed(image, named) - now


def _data(image: SizedImage, images: Sequence[SizedImage], freed: tuple[int, int]) -> dict[str, object]:
    shared = {other.name: _bytes(image, other) for other in images if other is not image}
    return {"blocks": image.blocks, "size": image.size, "shared": shared, "freed": freed[0], "untagged": freed[1]}


def _bytes(image: SizedImage, other: SizedImage) -> int:
    return sum(count for _, count in image.shared(other))


def _print(images: Sequence[SizedImage], freed: Sequence[tuple[int, int]], together: int) -> None:
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
