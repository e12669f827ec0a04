"""`reprokit run`."""

from __future__ import annotations

import typer

from reprokit.commands import _options as options
from reprokit.container.settings import RunOptions


def run(
    name: options.RecipeName,
    command: options.Command,
    gpus: options.Gpus = None,
    volume: options.Volumes = [],
    publish: options.Ports = [],
    env: options.Env = [],
    env_file: options.EnvFile = [],
    shm_size: options.ShmSize = None,
    user: options.User = None,
    container: options.Name = None,
    network: options.Network = None,
    stale: options.Stale = False,
    tty: options.Tty = False,
    on: options.On = None,
) -> None:
    """Run a command in a recipe's container.

    The container is created if there is none, started if it is stopped, and recreated with its files if it lacks a GPU,
    mount, port, network or root that you ask for. If the image was rebuilt, the container is recreated from it; the old
    one is kept under another name if its files were changed. It keeps running afterwards, which costs nothing; `stop`
    ends it. Its files survive a stop, and /workspace is a folder of the host. The exit code is the command's. With --on
    all this happens on another machine, which needs Docker and the image, but no reprokit.
    """
    from reprokit.compat.model import KnownHost
    from reprokit.container.session import in_recipe
    from reprokit.explain.last import explained
    from reprokit.host.fit import host_errors_of
    from reprokit.recipe.find import target

    mounts, ports = options.mounts(volume, on), tuple(publish)
    chosen = RunOptions(container, gpus=gpus, mounts=mounts, ports=ports, shm=shm_size, network=network, stale=stale)
    recipe, requested = target(name), options.container_command(command, env, env_file, user, tty)
    with options.engine_on(on) as engine, explained(recipe):
        host = KnownHost(engine.host.memory_bytes(), None)
        host_errors_of(recipe, host, False, "`reprokit shell` opens the container anyway")
        raise typer.Exit(in_recipe(engine, recipe, requested, chosen))
