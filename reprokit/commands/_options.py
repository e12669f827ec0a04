"""The options that verbs on containers share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from reprokit import completion
from reprokit.container import parse
from reprokit.container.settings import RunOptions

if TYPE_CHECKING:
    from reprokit.container.attach import Command as ContainerCommand
    from reprokit.engine import Engine

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
    typer.Option(metavar="all|none|N|device=0,1", help="GPUs; by default as the recipe says."),
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
    typer.Option(metavar="SIZE", help="Size of /dev/shm: 8g or 8GiB by 1024, 8GB by 1000."),
]
User = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="USER", help="Who runs this command (default: you; `root` installs packages)."),
]
Tty = Annotated[
    bool,
    typer.Option("-t", "--tty", help="Give the command a terminal; without, its control characters are shown as text."),
]
Name = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--name", metavar="CONTAINER", help="A container other than the recipe's own."),
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
    """The options as data; with `on`, a node, paths are those of the node. Raises UsageError."""
    return RunOptions(
        name=parse.name(name) if name else None,
        gpus=gpus,
        mounts=tuple(parse.mount(v, None if on else Path.cwd()) for v in volumes),
        ports=tuple(parse.port(p) for p in ports),
        shm=parse.shm_size(shm_size) if shm_size else None,
        network=network,
    )


def container_command(argv: Sequence[str], env: list[str], user: str | None, tty: bool) -> ContainerCommand:
    """The command as data. Raises UsageError."""
    from reprokit.container.attach import Command as ContainerCommand

    return ContainerCommand(argv, parse.environment(env, os.environ), user=parse.user(user) if user else None, tty=tty)


@contextmanager
def engine_on(node: str | None) -> Iterator[Engine]:
    """Connect to this machine's engine, or to that of a node. Raises EngineError, SourceError."""
    if node is None:
        from reprokit.engine import Engine

        yield Engine.connect()
        return
    from reprokit.nodes.forward import engine_of

    with engine_of(node) as engine:
        yield engine
