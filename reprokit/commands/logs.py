"""`reprokit logs`."""

from __future__ import annotations

from typing import Optional

import typer

from reprokit.commands import _options as options
from reprokit.untrusted.text import Output


def logs(
    container: options.ContainerName,
    follow: bool = typer.Option(False, "--follow", "-f", help="Keep printing new output."),
    tail: Optional[int] = typer.Option(None, "--tail", "-n", min=0, help="Only the last lines."),  # noqa: UP045
) -> None:
    """Print what a container's commands wrote.

    The log has the output of `run`, `exec`, `notebook`, `smoke` and `bench`, but not of terminals opened by `shell`.
    """
    import os

    from reprokit.container import log, names
    from reprokit.engine import Engine

    found = names.find(names.known_containers(Engine.connect()), container, os.getuid())
    out = Output(1)
    for block in log.read(found.name, follow, tail):
        out.write(block)
