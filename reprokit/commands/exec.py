"""`reprokit exec`."""

from __future__ import annotations

import typer

from reprokit.container import options


def exec(
    name: options.ContainerName,
    command: options.Command,
    env: options.Env = [],  # noqa: B006 - typer's own style; it is only read
    user: options.User = None,
    tty: options.Tty = False,
) -> None:
    """Run a command in a container that is running.

    Unlike `run` it neither makes nor starts one. The exit code is the command's.
    """
    import os

    from reprokit.container import names, parse
    from reprokit.container.session import in_container
    from reprokit.engine import Engine
    from reprokit.errors import UsageError

    given = parse.environment(env, os.environ)
    who = parse.user(user) if user else None
    engine = Engine.connect()
    found = names.find(names.known_containers(engine), name, os.getuid())
    if not found.running:
        raise UsageError(f"{found.name} is {found.state}", hint=f"`reprokit run {found.label} -- ...` starts it")
    raise typer.Exit(in_container(engine, found.name, command, given, who, tty=tty))
