"""`reprokit notebook`."""

from __future__ import annotations

import typer

from reprokit.commands import _options as options
from reprokit.container import parse
from reprokit.container.settings import RunOptions
from reprokit.untrusted.terminal import echo


def notebook(
    name: options.RecipeName,
    publish: str | None = typer.Option(
        None, "-p", "--publish", metavar="[ADDR:]PORT", help="The host's port; else 8888 or the next free one."
    ),
    gpus: options.Gpus = None,
    volume: options.Volumes = [],
    shm_size: options.ShmSize = None,
    container: options.Name = None,
    network: options.Network = None,
    stale: options.Stale = False,
) -> None:
    """Serve Jupyter from a recipe's container.

    Prints the address with its token and serves until Ctrl-C, on 127.0.0.1 unless an address is given. Then the
    container is stopped, so that the port is free, unless other commands run in it. If the image has no Jupyter, it is
    installed into the container, after the image's own packages on Python's path.
    """
    from reprokit.container.notebook import INSIDE, serve
    from reprokit.engine import Engine
    from reprokit.errors import UsageError
    from reprokit.recipe.find import target

    try:
        ports = (parse.port(f"{publish}:{INSIDE}"),) if publish else ()
    except UsageError:
        hint = f"give the port of the host only, it leads to {INSIDE} in the container: --publish [ADDRESS:]PORT"
        raise UsageError(f"--publish {publish!r} is not a port", hint=hint) from None
    mounts = options.mounts(volume)
    chosen = RunOptions(container, gpus=gpus, mounts=mounts, ports=ports, shm=shm_size, network=network, stale=stale)

    raise typer.Exit(serve(Engine.connect(), target(name), chosen, echo))
