"""`reprokit load`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reprokit import completion
from reprokit.commands._shown import progress, say


def load(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Bundles, in order.", autocompletion=completion.bundles)
    ],
    force: bool = typer.Option(False, "--force", help="Load also what this host's driver or GPU cannot run."),
) -> None:
    """Check bundles and give their images to the engine.

    Everything is checked before the engine sees a byte. An interrupted load is repeated by the same command.
    """
    from contextlib import ExitStack

    from reprokit.bundle import recipes
    from reprokit.bundle.load import checked
    from reprokit.bundle.load import load as give
    from reprokit.container.gpu_host import host_gpus
    from reprokit.engine import Engine

    with ExitStack() as stack:
        found = checked(files, stack, lambda path: progress(f"checking {path.name}"))
        brought = [recipes.carried(each.bundle.metadata, each.bundle.where) for each in found]
        loaded = give(found, Engine.connect(), host_gpus(), force, say, lambda name: progress(f"loading {name}"))
    for each in brought:
        say(*recipes.put(each))
    for name in loaded.new:
        typer.echo(f"loaded {name}")
    for name in loaded.there:
        typer.echo(f"{name} is here already")
