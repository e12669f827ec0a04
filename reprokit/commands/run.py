"""`reprokit run`."""

from __future__ import annotations

import typer

from reprokit.container import options


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

    The container is made if there is none, started if it is stopped, and made anew, with its files, if it lacks
    a GPU, mount, port, network or root that you ask for. It goes on running afterwards, which costs nothing; `stop`
    ends it. Its files outlive a stop, and /workspace is a folder of the host. The exit code is the command's.
    With --on all this happens on another machine, which needs Docker and the image, and nothing of reprokit.
    """
    from reprokit.container.session import in_recipe

    chosen = options.choices(container, gpus, volume, publish, shm_size, network, on)
    raise typer.Exit(in_recipe(name, command, chosen, env, user, on=on, tty=tty))
