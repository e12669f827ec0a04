"""`reprokit stop`."""

from __future__ import annotations

from reprokit.commands import _options as options
from reprokit.untrusted.text import echo


def stop(container: options.ContainerNames) -> None:
    """Stop containers; their files stay."""
    import os

    from reprokit.container import lifecycle, names
    from reprokit.engine import Engine

    engine = Engine.connect()
    known = names.known_containers(engine)
    # All names are looked up before any container is stopped.
    for found in [names.find(known, name, os.getuid()) for name in container]:
        if found.state in ("running", "paused", "restarting"):
            lifecycle.stop(engine, found.name)
            echo(f"stopped {found.name}")
        else:
            echo(f"{found.name} was not running")
