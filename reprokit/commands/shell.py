"""`reprokit shell`."""

from __future__ import annotations

import typer

from reprokit.commands import _options as options
from reprokit.container.settings import RunOptions


def shell(
    name: options.RecipeName,
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
    failed: bool = options.flag("--failed", "Open what `build --keep-failed` kept, as root and without workspace."),
    on: options.On = None,
) -> None:
    """Open a terminal in a recipe's container.

    The container is created or started as by `run`, and keeps running afterwards. The exit code is the shell's.
    """
    from dataclasses import replace

    from reprokit.container.session import in_failed_build, in_recipe
    from reprokit.recipe.find import target

    mounts, ports = options.mounts(volume, on), tuple(publish)
    chosen = RunOptions(container, gpus=gpus, mounts=mounts, ports=ports, shm=shm_size, network=network, stale=stale)
    recipe = target(name)
    # Never a login shell: Debian's /etc/profile resets PATH, and python would not be the image's.
    argv = ["sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"]
    command = replace(options.container_command(argv, env, env_file, user, tty=True), log_as=None)
    with options.engine_on(on) as engine:
        if failed:
            raise typer.Exit(in_failed_build(engine, recipe, command, chosen))
        raise typer.Exit(in_recipe(engine, recipe, command, chosen))
