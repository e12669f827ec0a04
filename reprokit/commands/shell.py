"""`reprokit shell`."""

from __future__ import annotations

import typer

from reprokit.container import options


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
        False, "--failed", help="Open what `build --keep-failed` left, as root, without workspace, and drop it."
    ),
) -> None:
    """Open a terminal in a recipe's container.

    The container is made or started as by `run`, and goes on running afterwards. The exit code is the shell's.
    """
    from reprokit.container.ephemeral import in_failed_build
    from reprokit.container.session import in_recipe

    chosen = options.choices(container, gpus, volume, publish, shm_size, network)
    # Never a login shell: Debian's /etc/profile sets PATH anew, and python would not be the image's.
    argv = ["sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"]
    if failed:
        raise typer.Exit(in_failed_build(name, argv, chosen, env))
    raise typer.Exit(in_recipe(name, argv, chosen, env, user, logged=False, tty=True))
