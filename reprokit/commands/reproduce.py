"""`reprokit reproduce`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from reprokit.commands import _options as options
from reprokit.tables import show_tables
from reprokit.untrusted.terminal import dump, echo


def reproduce(
    name: options.RecipeName,
    output: Annotated[
        Path | None,
        options.file("Folder of the report, by default results/NAME-report.", "-o", "--output", metavar="DIR"),
    ] = None,
    repeat: int = typer.Option(5, "--repeat", metavar="N", min=1, max=10_000, help="Run each benchmark N times."),
    again: bool = options.flag("--again", "Begin anew, also with steps that were done before."),
    as_json: options.Json = False,
) -> None:
    """Check, lock, fetch, build, smoke, bench, claims and report in one command.

    Continues at the step that failed before. Begins anew if recipe, lock, image, workspace, machine or --repeat have
    changed, or the variant's results are gone.
    What this machine cannot do is skipped with its reason; exit code 3 or 4 if nothing could run in the image. A
    report is written in any case.
    """
    from reprokit.bench.report import write
    from reprokit.recipe.find import split
    from reprokit.recipe.find import target as find_target
    from reprokit.results.lines import FOLDER, check_writable
    from reprokit.smoke.reproduce import as_table, exit_code
    from reprokit.smoke.reproduce import reproduce as do

    target = find_target(name)
    recipe, _ = split(name)
    usual = Path(FOLDER) / f"{target.recipe.name}-report"
    folder = output or usual
    check_writable(Path(FOLDER) / f"{target.recipe.name}.jsonl")
    check_writable((folder.absolute() if output else folder) / "index.html", "-o DIR")
    journal, steps = do(target, f"{recipe}:{target.variant_name}", repeat, again)
    write([recipe], output, usual, steps=as_table(steps))
    journal.save()  # after the report, which may change the workspace's checkout
    code = exit_code(steps)
    if as_json:
        dump({"ok": not code, "steps": [asdict(step) for step in steps], "report": str(folder / "index.html")})
    else:
        show_tables([as_table(steps)])
        echo(str(folder / "index.html"))
    if code:
        raise typer.Exit(code)
