"""The arguments and options that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit import completion
from reprokit.container import parse
from reprokit.container.settings import Port
from reprokit.host.mounts import BindMount

if TYPE_CHECKING:
    from reprokit.container.attach import Command as ContainerCommand
    from reprokit.engine import Engine

_GPUS = ("none", "V100", "T4", "A100", "RTX3090", "RTX4090", "L4", "H100", "H200", "B200")
_PURPOSES = ("compile", "run", "ptx", "import")


def recipes(help: str, metavar: str = "NAME[:VARIANT]...") -> Any:
    """An argument that names recipes."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=completion.targets)


def flag(name: str, help: str, *short: str) -> Any:
    """An option that is off by default."""
    return typer.Option(False, name, *short, help=help)


def file(help: str, *names: str, metavar: str = "FILE") -> Any:
    """An option that names a file or a folder."""
    return typer.Option(*names, metavar=metavar, help=help, autocompletion=completion.files)


# Recipes, benchmarks and results.
RecipeName = Annotated[str, recipes("The recipe.", "NAME[:VARIANT]")]
OneRecipe = Annotated[str | None, recipes("Else all recipes.", "NAME[:VARIANT]")]
WithResults = Annotated[list[str] | None, recipes("Recipes; all with results by default.", "NAME")]
Benchmarks = Annotated[
    list[str] | None, typer.Argument(metavar="BENCHMARK", help="Only these.", autocompletion=completion.benchmarks)
]
Records = Annotated[Path | None, file("Read FILE instead: records, or what a benchmark printed.", "--records")]
Plot = Annotated[Path | None, file("Also draw a plot: .svg, .png or .pdf.", "--plot")]
Pins = Annotated[str | None, typer.Option("--pins", metavar="NAME=VERSION,...", help="These pins instead of a recipe.")]
Gpu = Annotated[
    list[str] | None,
    typer.Option(
        "--gpu",
        metavar="NAME|none",
        help="A GPU by name, such as RTX3090, or by compute capability, such as 8.6; `none` for no GPU.",
        autocompletion=completion.choices(*_GPUS),
    ),
]
Driver = Annotated[str, typer.Option("--driver", metavar="VERSION", help="The NVIDIA driver, such as 470.57.02.")]
Purpose = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="|".join(_PURPOSES),
        help="Purpose: compile (default), run prebuilt binaries, run PTX, or import only.",
        autocompletion=completion.choices(*_PURPOSES),
    ),
]
Secrets = Annotated[
    list[str],
    typer.Option(
        "--secret",
        metavar="id=NAME[,env=VAR|,src=FILE]",
        help="Let the blocks that name this secret read it, from the environment or a file.",
    ),
]

# Options of many verbs.
Every = Annotated[bool, typer.Option("--all", help="Without names: every recipe, also those that come with reprokit.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use no network, only the store.")]
On = Annotated[
    str | None, typer.Option("--on", metavar="NODE", help="Another machine, by ssh.", autocompletion=completion.nodes)
]

# Bundles.
Output = Annotated[Path, file("The bundle, such as x.rkit.", "--output", "-o")]
SignedBy = Annotated[
    Path | None,
    file(
        "Refuse bundles without a signature by one of these keys: a public key, or allowed signers.",
        "--signed-by",
        metavar="KEYS",
    ),
]

# Containers.
ContainerName = Annotated[
    str,
    typer.Argument(
        metavar="CONTAINER", help="A container's name, or its recipe's.", autocompletion=completion.containers
    ),
]
ContainerNames = Annotated[
    list[str],
    typer.Argument(
        metavar="CONTAINER...", help="Containers' names, or their recipes'.", autocompletion=completion.containers
    ),
]
Command = Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The command and its arguments.")]
Gpus = Annotated[
    str | None,
    typer.Option(
        metavar="all|none|N|device=0,1",
        help="GPUs; by default as the recipe says.",
        autocompletion=completion.choices("all", "none", "1", "device=0"),
    ),
]
Memory = Annotated[
    int | None,
    typer.Option("--memory", parser=parse.memory, metavar="SIZE", help="Memory of a step: 16g or 16GiB by 1024."),
]
Volumes = Annotated[
    list[str], file("Mount a folder or file of the host, too.", "-v", "--volume", metavar="SRC:DST[:ro]")
]
Ports = Annotated[
    list[Port],
    typer.Option(
        "-p",
        "--publish",
        parser=parse.port,
        metavar="[ADDR:]HOST:PORT",
        help="Publish a port, on 127.0.0.1 by default.",
    ),
]
Env = Annotated[
    list[str], typer.Option("-e", "--env", metavar="NAME[=VALUE]", help="Set a variable for this command only.")
]
EnvFile = Annotated[
    list[Path], file("Set the variables of a file, such as tokens, for this command only.", "--env-file")
]
ShmSize = Annotated[
    int | None,
    typer.Option(parser=parse.shm_size, metavar="SIZE", help="Size of /dev/shm: 8g or 8GiB by 1024, 8GB by 1000."),
]
User = Annotated[
    str | None,
    typer.Option(
        parser=parse.user, metavar="USER", help="Who runs the command (default: you; `root` installs packages)."
    ),
]
Tty = Annotated[
    bool,
    typer.Option("-t", "--tty", help="Give the command a terminal; without, its control characters are shown as text."),
]
Stale = Annotated[bool, typer.Option("--stale", help="Use the container as it is although its image was rebuilt.")]
Name = Annotated[
    str | None,
    typer.Option("--name", parser=parse.name, metavar="CONTAINER", help="A container other than the recipe's own."),
]
Network = Annotated[
    str | None,
    typer.Option(
        metavar="bridge|host|none|NETWORK",
        help="The network, also one of the engine's own.",
        autocompletion=completion.choices("bridge", "host", "none"),
    ),
]


def mounts(volumes: Sequence[str], on: str | None = None) -> tuple[BindMount, ...]:
    """The mounts of `-v`; with `on`, a node, the paths are those of the node. Raises UsageError."""
    return tuple(parse.mount(volume, None if on else Path.cwd()) for volume in volumes)


def variables_of(env_files: Sequence[Path]) -> dict[str, str]:
    """The variables of `--env-file`; the last file wins. Raises UsageError."""
    variables: dict[str, str] = {}
    for file in env_files:
        variables |= parse.environment_file(file, os.environ)
    return variables


def container_command(
    argv: Sequence[str], env: list[str], env_files: Sequence[Path], user: str | None, tty: bool
) -> ContainerCommand:
    """The command as data. Raises UsageError."""
    from reprokit.container.attach import Command as ContainerCommand

    argv = [parse.utf8(word, f"the argument {word!r}") for word in argv]
    hidden = variables_of(env_files)
    variables = hidden | parse.environment(env, os.environ)
    return ContainerCommand(argv, variables, user=user, tty=tty, log_as=argv, hidden=tuple(hidden.values()))


@contextmanager
def engine_on(node: str | None) -> Iterator[Engine]:
    """Connect to this machine's engine, or to that of a node. Raises EngineError, SourceError."""
    if node is None:
        from reprokit.engine import Engine

        yield Engine.connect()
        return
    from reprokit.nodes.remote import engine_of

    with engine_of(node) as engine:
        yield engine
