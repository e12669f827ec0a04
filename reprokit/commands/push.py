"""`reprokit push`."""

from __future__ import annotations

import typer

from reprokit import completion
from reprokit.untrusted.text import echo


def push(
    image: str = typer.Argument(..., metavar="REGISTRY/NAME[:VARIANT]", autocompletion=completion.published),
) -> None:
    """Put the image of a recipe into a registry.

    The engine pushes, with the credentials of `docker login`; layers that are there already are not sent again.
    Prints the image's name by its digest, which `reprokit pull` takes on other machines.
    """
    from reprokit.commands._shown import progress, say
    from reprokit.engine import Engine
    from reprokit.nodes import published, registry

    wanted, target = published.of_recipe(image)
    engine = Engine.connect()
    with progress(f"pushing {wanted.named}") as watch:
        moved = registry.push(engine, wanted, target, say, watch)
    say(f"{moved.name}: {moved.said}")
    echo(f"{wanted.repository}@{moved.digest}")
