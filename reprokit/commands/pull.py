"""`reprokit pull`."""

from __future__ import annotations

import typer

from reprokit import completion
from reprokit.untrusted.text import echo


def pull(
    image: str = typer.Argument(..., metavar="REGISTRY/NAME[:VARIANT][@DIGEST]", autocompletion=completion.published),
    replace: bool = typer.Option(False, "--replace", help="Move the name of another image."),
) -> None:
    """Take the image of a recipe from a registry.

    The engine pulls, with the credentials of `docker login`; of many at once on a machine one pulls and the others
    wait. An image that is built from other inputs than the lock here is refused, except by its digest. Afterwards
    `reprokit shell NAME` works as where it was built. The image is unverified until `reprokit trust add`.
    """
    from reprokit.commands._shown import progress, say
    from reprokit.engine import Engine
    from reprokit.nodes import published, registry

    wanted, target = published.of_recipe(image)
    engine = Engine.connect()
    moved = registry.pull(engine, wanted, target, replace, say, lambda: progress(f"pulling {image}"))
    echo(f"{moved.name} is here ({moved.digest}{', ' if moved.said else ': it was already'}{moved.said})")
