"""`reprokit profile`."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.container.settings import RunOptions
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.container.attach import Command
    from reprokit.engine import Engine
    from reprokit.profiling.run import Profiled
    from reprokit.untrusted.files import Folder

_TOOLS = ("torch", "nsys", "ncu", "perf", "py-spy")
_FOLDER = "profiles"
_SHOWN = 15


def profile(
    name: options.RecipeName,
    command: options.Command,
    tool: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="|".join(_TOOLS),
            help="The profiler; by default the one of the image that sees most.",
            autocompletion=completion.choices(*_TOOLS),
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="A new folder for the reports; by default below profiles/."),
    ] = None,
    gpus: options.Gpus = None,
    volume: options.Volumes = [],
    env: options.Env = [],
    env_file: options.EnvFile = [],
    shm_size: options.ShmSize = None,
    user: options.User = None,
    network: options.Network = None,
    as_json: options.Json = False,
    on: options.On = None,
) -> None:
    """Run a command under a profiler, and show its most expensive kernels or functions.

    The command runs in a container of its own, which is removed at the end: only the workspace and the reports stay.
    A profiler slows a program down, so nothing is recorded. The exit code is the command's.
    """
    from reprokit.profiling.run import profile as run_profile
    from reprokit.recipe.find import target

    recipe, requested = target(name), options.container_command(command, env, env_file, user, False)
    chosen = RunOptions(gpus=gpus, mounts=options.mounts(volume, on), shm=shm_size, network=network)
    now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    usual = Path(_FOLDER) / f"{recipe.recipe.name}-{recipe.variant_name}-{now}"
    place = out or usual

    def run(engine: Engine, container: str, wrapped: Command) -> int:
        from reprokit.container.session import in_container

        return _beside(engine, container, wrapped) if as_json else in_container(engine, container, wrapped)

    with options.engine_on(on) as engine, _opened(out, usual) as folder:
        try:
            done = run_profile(engine, recipe, requested, chosen, tool, folder, run)
        finally:
            _remove_empty(place, *([] if out else [place.parent]))
    if as_json:
        dump(_data(done, place))
    else:
        _print(done, place)
    raise typer.Exit(done.exit_code)


def _opened(named: Path | None, usual: Path) -> Folder:
    """The new folder for the reports. Raises UsageError, and EngineError if it cannot be made."""
    from reprokit.errors import UsageError
    from reprokit.host.disk import unwritable
    from reprokit.untrusted.files import output_folder

    place = named or usual
    try:
        folder = output_folder(named, usual)
        if any(place.iterdir()):
            raise UsageError("the folder for the reports is not empty", str(place), "name a new one: -o DIR")
    except OSError as error:
        raise unwritable(error, "the folder for the reports", place) from None
    return folder


def _remove_empty(*folders: Path) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _beside(engine: Engine, container: str, command: Command) -> int:
    """Run the command with its output on standard error: standard output is for JSON."""
    from reprokit.container.execute import execute
    from reprokit.untrusted.terminal import Output

    shown = Output(2)
    return execute(
        engine,
        container,
        command.argv,
        env=command.env,
        workdir=command.workdir,
        user=command.user,
        on_output=lambda stream, text: shown.write(text.encode()),
        logged=False,
    ).exit_code


def _data(done: Profiled, place: Path) -> dict[str, object]:
    from reprokit.profiling.table import positions

    summary = done.summary
    rows = [] if summary is None else [
        {
            **row.model_dump(exclude_defaults=True),
            "share": summary.share(row),
            "gflops": row.rate,
            "of_peak": position.of_peak,
            "limited_by": position.limited_by,
        }
        for row, position in zip(summary.rows, positions(summary), strict=True)
    ]  # fmt: skip
    return {
        "with": done.tool.name,
        "exit_code": done.exit_code,
        "files": {str(place / name): what for name, what in done.files.items()},
        "device": summary.device if summary else "",
        "totals": summary.totals if summary else {},
        "rows": rows,
    }


def _print(done: Profiled, place: Path) -> None:
    from reprokit.profiling.table import KINDS, rows
    from reprokit.tables import table

    for kind, title in KINDS.items():
        shown = rows(done.summary, kind, _SHOWN, done.tool.counts) if done.summary else None
        if shown:
            echo(title)
            table(*shown, words=(0,))
            echo()
    for name, what in done.files.items():
        echo(f"{place / name}  {what}")
