"""`reprokit stop`."""

from __future__ import annotations

from reprokit.commands import _options as options
from reprokit.untrusted.terminal import echo


def stop(container: options.ContainerNames, on: options.On = None) -> None:
    """Stop containers; their files stay."""
    from reprokit.container import lifecycle, names

    with options.engine_on(on) as engine:
        for chosen in names.chosen(engine, container):
            if chosen.has_processes:
                lifecycle.stop(engine, chosen.name)
                echo(f"stopped {chosen.name}")
            else:
                echo(f"{chosen.name} was not running")
