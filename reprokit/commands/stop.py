"""`reprokit stop`."""

from __future__ import annotations

from reprokit.commands import _options as options
from reprokit.untrusted.terminal import echo


def stop(container: options.ContainerNames, on: options.On = None) -> None:
    """Stop containers; their files stay."""
    from reprokit.container import lifecycle, names

    with options.engine_on(on) as engine:
        for found in names.chosen(engine, container):
            if found.has_processes:
                lifecycle.stop(engine, found.name)
                echo(f"stopped {found.name}")
            else:
                echo(f"{found.name} was not running")
