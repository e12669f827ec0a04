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
    from reprokit.nodes import registry

    reference, target = registry.of_recipe(image)
    engine = Engine.connect()
    transferred = registry.push(engine, reference, target)
    notify(f"{transferred.name}: {transferred.summary}")
    echo(f"{reference.repository}@{transferred.digest}")
