"""`reprokit run`."""

from __future__ import annotations

import typer

from reprokit.commands import _options as options


def run(
    name: options.RecipeName,
    command: options.Command,
    gpus: options.Gpus = None,
    volume: options.Volumes = [],  # noqa: B006 - typer's own style; it is only read
    publish: options.Ports = [],  # noqa: B006
    env: options.Env = [],  # noqa: B006
    shm_size: options.ShmSize = None,
    user: options.User = None,
    container: options.Name = None,
    network: options.Network = None,
    tty: options.Tty = False,
    on: options.On = None,
) -> None:
    """Run a command in a recipe's container.

    The container is created if there is none, started if it is stopped, and recreated with its files if it lacks a GPU,
    mount, port, network or root that you ask for. It keeps running afterwards, which costs nothing; `stop` ends it.
    Its files survive a stop, and /workspace is a folder of the host. The exit code is the command's. With --on all this
    happens on another machine, which needs Docker and the image, but no reprokit.
    """
    from reprokit.commands._shown import say
    from reprokit.container.session import in_recipe
    from reprokit.recipe.find import target

    chosen = options.choices(container, gpus, volume, publish, shm_size, network, on)
    recipe, requested = target(name), options.container_command(command, env, user, tty)
    with options.engine_on(on) as engine:
        raise typer.Exit(in_recipe(engine, recipe, requested, chosen, say))
