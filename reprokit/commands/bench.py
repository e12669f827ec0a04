"""`reprokit bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from reprokit.bench.parameters import parameter
from reprokit.bench.run import Rounds
from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.recipe import find
from reprokit.results import lines
from reprokit.results.tables import of_run
from reprokit.tables import show_tables
from reprokit.untrusted.terminal import dump


def bench(
    name: options.RecipeName,
    benchmarks: options.Benchmarks = None,
    with_extension: bool = options.flag(
        "--extension", "Build, check and time the bundled attention extension in this container."
    ),
    gpus: options.Gpus = None,
    repeat: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=10_000, help="Run each benchmark N times; by default as the recipe says."),
    ] = None,
    warm_up: int = typer.Option(
        0, "--warm-up", metavar="N", min=0, max=1000, help="Run each benchmark N times before, unmeasured."
    ),
    timeout: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", min=1, help="Stop a run that takes longer and count it as failed."),
    ] = None,
    params: Annotated[
        list[str],
        typer.Option(
            "--param", metavar="NAME=VALUE", help="Set a variable of the command, not by the recipe's matrix."
        ),
    ] = [],
    records: Annotated[
        Path | None, options.file("Append the records to this file instead of results/NAME.jsonl.", "--records")
    ] = None,
    env_file: options.EnvFile = [],
    every_table: bool = options.flag("--all", "Print all tables, also of benchmarks with a summary."),
    stale: bool = options.flag("--stale", "Measure the image although recipe or lock have changed since it was built."),
    as_json: options.Json = False,
    on: options.On = None,
) -> None:
    """Run a recipe's benchmarks and record the numbers.

    Builds the image if there is none, and refuses one that was built from other inputs than the recipe's. Uses a
    separate container, so that manual changes do not affect the results. With --on they run on another machine, which
    needs Docker and the image; the records are kept here. Records are appended to results/NAME.jsonl below the current
    folder; `reprokit results` shows and compares them.
    """
    from reprokit.bench.measure import bench as measure

    target = find.target(name)
    file = records.absolute() if records else Path(lines.FOLDER) / f"{target.recipe.name}.jsonl"
    outcome = measure(
        target,
        benchmarks or [],
        file=file,
        on=on,
        with_extension=with_extension,
        gpus=gpus,
        rounds=Rounds(repeat, warm_up, timeout),
        fixed={name: [value] for name, value in map(parameter, params)},
        variables=options.variables_of(env_file),
        stale=stale,
    )
    if as_json:
        measured = [json.loads(record.to_json()) for record in outcome.records]
        dump({"ok": not outcome.failed, "records": measured, **outcome.as_json()})
    else:
        tables, short = of_run(outcome.records, {} if every_table else outcome.benchmarks, target.recipe.claims)
        show_tables(tables)
    if outcome.recorded:
        notify(f"recorded in {file}")
    if not as_json and short:
        shown = f"{target.label}{f' --records {file}' if records else ''}"
        notify(f"all tables: `reprokit results show {shown}`, or `reprokit bench --all ...`")
    outcome.raise_failure()
