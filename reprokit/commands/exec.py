"""`reprokit exec`."""

from __future__ import annotations

import typer

from reprokit.commands import _options as options


def exec(
    name: options.ContainerName,
    command: options.Command,
    env: options.Env = [],
    env_file: options.EnvFile = [],
    user: options.User = None,
    tty: options.Tty = False,
    stale: options.Stale = False,
    on: options.On = None,
) -> None:
    """Run a command in a container that is running.

    Unlike `run` it neither creates nor starts one, but as `run` it recreates one whose image was rebuilt. The exit code
    is the command's.
    """
    from reprokit.container import names
    from reprokit.container.lifecycle import renewed, staleness
    from reprokit.container.session import in_container
    from reprokit.display import notify
    from reprokit.errors import UsageError

    requested = options.container_command(command, env, env_file, user, tty)
    with options.engine_on(on) as engine:
        (container,) = names.chosen(engine, [name])
        if not container.running:
            does = "starts it" if container.usual else "uses the recipe's own container"
            raise UsageError(
                f"{container.name} is {container.state}", hint=f"`reprokit run {container.label} -- ...` {does}"
            )
        target = names.target_of(container)
        if target and not stale:
            renewed(engine, target, container.name)
        if target and (older := staleness(engine, target, engine.container(container.name))):
            notify(older.line)
        raise typer.Exit(in_container(engine, container.name, requested))
