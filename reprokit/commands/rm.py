"""`reprokit rm`."""

from __future__ import annotations

from reprokit.commands import _options as options
from reprokit.untrusted.terminal import echo


def rm(
    container: options.ContainerNames,
    force: bool = options.flag("--force", "Also containers that are running.", "-f"),
    on: options.On = None,
) -> None:
    """Remove containers and their files.

    With a recipe's container, those of its benchmarks go, too. The workspace, a folder of the host, is kept.
    """
    from reprokit.container import lifecycle, names
    from reprokit.errors import UsageError

    with options.engine_on(on) as engine:
        chosen = names.chosen(engine, container)
        containers = names.known_containers(engine)
        removed = [c for own in chosen for c in (own, *names.of_purposes(containers, own))]
        running = [c.name for c in removed if c.has_processes]
        if running and not force:
            raise UsageError(f"still running: {', '.join(running)}", hint="`reprokit stop` first, or use --force")
        for name in dict.fromkeys(c.name for c in removed):
            lifecycle.remove(engine, name)
            echo(f"removed {name}")
