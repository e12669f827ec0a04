"""`reprokit rm`."""

from __future__ import annotations

import typer

from reprokit.commands import _options as options
from reprokit.untrusted.text import echo


def rm(
    container: options.ContainerNames,
    force: bool = typer.Option(False, "--force", "-f", help="Also containers that are running."),
) -> None:
    """Remove containers and their files.

    The workspace, a folder of the host, is kept.
    """
    import os

    from reprokit.container import lifecycle, names
    from reprokit.engine import Engine
    from reprokit.errors import UsageError

    engine = Engine.connect()
    known = names.known_containers(engine)
    found = [names.find(known, name, os.getuid()) for name in container]
    running = [c.name for c in found if c.running]
    if running and not force:
        raise UsageError(f"still running: {', '.join(running)}", hint="`reprokit stop` first, or use --force")
    for one in dict.fromkeys(found):
        lifecycle.remove(engine, one.name)
        echo(f"removed {one.name}")
