"""`reprokit push`."""

from __future__ import annotations

import typer

from reprokit import completion
from reprokit.display import notify
from reprokit.untrusted.terminal import echo


def push(
    image: str = typer.Argument(..., metavar="REGISTRY/NAME[:VARIANT]", autocompletion=completion.published),
) -> None:
    """Put the image of a recipe into a registry.

    The engine pushes, with the credentials of `docker login`, and skips layers that the registry has.
    Prints the image's name with its digest, for `reprokit pull` on other machines.
    """
    from reprokit.engine import Engine
    from reprokit.nodes import image_reference, registry

    reference, target = image_reference.of_recipe(image)
    engine = Engine.connect()
    moved = registry.push(engine, reference, target)
    notify(f"{moved.name}: {moved.summary}")
    echo(f"{reference.repository}@{moved.digest}")
