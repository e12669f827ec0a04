"""`reprokit logs`."""

from __future__ import annotations

import typer

from reprokit.commands import _options as options
from reprokit.untrusted.terminal import Output


def logs(
    container: options.ContainerName,
    follow: bool = typer.Option(False, "--follow", "-f", help="Keep printing new output."),
    tail: int | None = typer.Option(None, "--tail", "-n", min=0, help="Only the last lines."),
    on: options.On = None,
) -> None:
    """Print what a container's commands wrote.

    The log has the output of `run`, `exec`, `notebook`, `smoke` and `bench`, but not of terminals opened by `shell`.
    With --on it has that of the commands which this machine ran there.
    """
    from reprokit.container import log, names

    out = Output(1)
    with options.engine_on(on) as engine:
        (chosen,) = names.chosen(engine, [container])
        key = log.key(engine, chosen.name)
    for block in log.read(key, follow, tail):
        out.write(block)
