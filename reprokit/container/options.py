"""The options that `run`, `shell` and `notebook` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from reprokit import completion
from reprokit.container import parse
from reprokit.container.settings import RunOptions

RecipeName = Annotated[
    str, typer.Argument(metavar="NAME[:VARIANT]", help="The recipe.", autocompletion=completion.targets)
]
ContainerName = Annotated[
    str,
    typer.Argument(
        metavar="CONTAINER", help="A container's name, or its recipe's.", autocompletion=completion.containers
    ),
]
ContainerNames = Annotated[
    list[str],
    typer.Argument(
        metavar="CONTAINER...",
        help="Containers' names, or their recipes'.",
        autocompletion=completion.containers,
    ),
]
Command = Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The command and its arguments.")]
Gpus = Annotated[
    Optional[str],  # noqa: UP045 - typer reads it at run time, on Python 3.10 too
    typer.Option(metavar="all|none|N|device=0,1", help="GPUs; the recipe says what is meant without."),
]
Volumes = Annotated[
    list[str],
    typer.Option("-v", "--volume", metavar="SRC:DST[:ro]", help="Mount a folder or file of the host, too."),
]
Ports = Annotated[
    list[str],
    typer.Option("-p", "--publish", metavar="[ADDR:]HOST:PORT", help="Publish a port, on 127.0.0.1 by default."),
]
Env = Annotated[
    list[str],
    typer.Option("-e", "--env", metavar="NAME[=VALUE]", help="Set a variable for this command only."),
]
ShmSize = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="SIZE", help="Size of /dev/shm, such as 8g."),
]
User = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="USER", help="Who runs this command (default: you; `root` installs packages)."),
]
Tty = Annotated[
    bool,
    typer.Option("-t", "--tty", help="Give the command a terminal; else its control characters are shown as text."),
]
Name = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--name", metavar="CONTAINER", help="Another container than the recipe's own."),
]
Network = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="NETWORK", help="bridge, host, none, or a network of the engine."),
]

On = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--on", metavar="NODE", help="Another machine, by ssh.", autocompletion=completion.nodes),
]


def choices(
    name: str | None,
    gpus: str | None,
    volumes: list[str],
    ports: list[str],
    shm_size: str | None,
    network: str | None,
    on: str | None = None,
) -> RunOptions:
    """The options as data; with `on`, a node, paths are its own. Raises UsageError."""
    return RunOptions(
        name=parse.name(name) if name else None,
        gpus=gpus,
        mounts=tuple(parse.mount(v, None if on else Path.cwd()) for v in volumes),
        ports=tuple(parse.port(p) for p in ports),
        shm=parse.size(shm_size) if shm_size else None,
        network=network,
    )
