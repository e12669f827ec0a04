"""`reprokit exec`."""

from __future__ import annotations

import typer

from reprokit.commands import _options as options


def exec(
    name: options.ContainerName,
    command: options.Command,
    env: options.Env = [],  # noqa: B006 - typer's own style; it is only read
    user: options.User = None,
    tty: options.Tty = False,
) -> None:
    """Run a command in a container that is running.

    Unlike `run` it neither creates nor starts one. The exit code is the command's.
    """
    import os

    from reprokit.commands._shown import say
    from reprokit.container import names
    from reprokit.container.session import in_container
    from reprokit.engine import Engine
    from reprokit.errors import UsageError

    requested = options.container_command(command, env, user, tty)
    engine = Engine.connect()
    found = names.find(names.known_containers(engine), name, os.getuid())
    if not found.running:
        raise UsageError(f"{found.name} is {found.state}", hint=f"`reprokit run {found.label} -- ...` starts it")
    raise typer.Exit(in_container(engine, found.name, requested, say))
