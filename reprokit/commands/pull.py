"""`reprokit pull`."""

from __future__ import annotations

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.untrusted.terminal import echo


def pull(
    image: str = typer.Argument(..., metavar="REGISTRY/NAME[:VARIANT][@DIGEST]", autocompletion=completion.published),
    replace: bool = options.flag("--replace", "Move the name of another image."),
) -> None:
    """Pull the image of a recipe from a registry.

    The engine pulls, with the credentials of `docker login`; concurrent pulls of one image wait for the first. An image
    of other inputs than the lock here names is refused, except by its digest. Afterwards `reprokit shell NAME` works.
    The image is unverified until `reprokit images trust`.
    """
    from reprokit.engine import Engine
    from reprokit.nodes import registry

    reference, target = registry.of_recipe(image)
    engine = Engine.connect()
    transferred = registry.pull(engine, reference, target, replace)
    echo(f"{transferred.name} is present ({transferred.digest}, {transferred.summary or 'already present'})")
