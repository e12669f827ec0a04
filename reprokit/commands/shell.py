"""`reprokit shell`."""

from __future__ import annotations

import typer

from reprokit.commands import _options as options


def shell(
    name: options.RecipeName,
    gpus: options.Gpus = None,
    volume: options.Volumes = [],  # noqa: B006 - typer's own style; it is only read
    publish: options.Ports = [],  # noqa: B006
    env: options.Env = [],  # noqa: B006
    shm_size: options.ShmSize = None,
    user: options.User = None,
    container: options.Name = None,
    network: options.Network = None,
    failed: bool = typer.Option(
        False,
        "--failed",
        help="Open what `build --keep-failed` kept, as root and without workspace.",
    ),
) -> None:
    """Open a terminal in a recipe's container.

    The container is created or started as by `run`, and keeps running afterwards. The exit code is the shell's.
    """
    from reprokit.commands._shown import say
    from reprokit.container.session import in_failed_build, in_recipe
    from reprokit.engine import Engine
    from reprokit.recipe.find import target

    chosen = options.choices(container, gpus, volume, publish, shm_size, network)
    found = target(name)
    # Never a login shell: Debian's /etc/profile resets PATH, and python would not be the image's.
    argv = ["sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"]
    command = options.container_command(argv, env, user, tty=True)
    engine = Engine.connect()
    if failed:
        raise typer.Exit(in_failed_build(engine, found, command, chosen, say))
    raise typer.Exit(in_recipe(engine, found, command, chosen, say, logged=False))
