"""`reprokit reproduce`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.tables import show_tables
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.recipe.find import Target


def reproduce(
    context: typer.Context,
    name: str = typer.Argument(..., metavar="NAME[:VARIANT]", autocompletion=completion.targets),
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Folder of the report, by default results/NAME-report.",
            autocompletion=completion.files,
        ),
    ] = None,
    repeat: int = typer.Option(5, "--repeat", metavar="N", min=1, max=10_000, help="Run each benchmark N times."),
    again: bool = typer.Option(False, "--again", help="Begin anew, also with steps that were done before."),
    as_json: options.Json = False,
) -> None:
    """Check, lock, fetch, build, smoke, bench, claims and report in one command.

    Continues at the step that failed before. Begins anew where recipe, lock, image, workspace, machine or --repeat have
    changed, or the variant's results are gone.
    What this machine cannot do is skipped with its reason; exit code 3 or 4 where nothing could run in the image. A
    report is written in any case.
    """
    from reprokit.commands.report import write
    from reprokit.recipe.find import split
    from reprokit.recipe.find import target as find_target
    from reprokit.results.lines import FOLDER, check_writable
    from reprokit.results.reproduction import NAMES, Journal, ReproductionStep, as_table, attempt, blocked, exit_code

    target = find_target(name)
    recipe, _ = split(name)
    label = f"{recipe}:{target.variant_name}"
    usual = Path(FOLDER) / f"{target.recipe.name}-report"
    folder = output or usual
    check_writable(Path(FOLDER) / f"{target.recipe.name}.jsonl")
    check_writable((folder.absolute() if output else folder) / "index.html", "-o DIR")
    journal = Journal(target, again, lambda: _state(target, repeat))
    for number, step in enumerate(NAMES, 1):
        if step in journal.steps and step != "claims":
            notify(f"{number}/{len(NAMES)} {step}: done before")
            continue
        argv = [step, label, *(["--repeat", str(repeat)] if step == "bench" else [])]
        notify(f"{number}/{len(NAMES)} {step}")
        needless = ""
        if reason := blocked(step, journal.steps):
            found = ReproductionStep(step, " ".join(("reprokit", *argv)), "skipped", reason)
        elif step in ("lock", "fetch") and (needless := _needless(step, target)):
            found = ReproductionStep(step, " ".join(("reprokit", *argv)), "done", needless)
        else:
            found = attempt(step, argv, lambda argv: _run(context, argv, as_json))
        if found.status != "done":
            notify(f"  {found.status}: {found.reason}")
        # What is fetched is locked: it changes no result.
        journal.add(found, ran=not needless and step != "fetch")
    steps = [journal.steps[step] for step in NAMES]
    write([recipe], output, usual, steps=as_table(steps))
    journal.save()  # the report may be in the checkout of the workspace
    code = exit_code(steps)
    if as_json:
        dump({"ok": not code, "steps": [asdict(step) for step in steps], "report": str(folder / "index.html")})
    else:
        show_tables([as_table(steps)])
        echo(str(folder / "index.html"))
    if code:
        raise typer.Exit(code)


def _run(context: typer.Context, argv: Sequence[str], quiet: bool) -> int:
    """Run a verb in this process, as a user would type it; returns its exit code. With `quiet`, it prints on stderr."""
    group = context.find_root().command
    with redirect_stdout(sys.stderr) if quiet else nullcontext():
        return group.main(args=list(argv), prog_name="reprokit", standalone_mode=False) or 0


def _state(target: Target, repeat: int) -> str:
    """All that the steps depend on. If any of it changes, all steps are done again."""
    import platform

    from reprokit import __version__
    from reprokit.bench.checkout import checkout_of
    from reprokit.engine import Engine
    from reprokit.errors import ReprokitError
    from reprokit.host import workspace
    from reprokit.image.labels import image_name
    from reprokit.image.lock.read import variant_lock
    from reprokit.image.render import render
    from reprokit.untrusted.files import stamp_of

    folder = workspace.locate(target.workspace, target.path)
    # Machines may share the state folder. A user may have removed the results.
    parts = [target.recipe.model_dump_json(), str(repeat), __version__, platform.node()]
    for part in (
        lambda: str(_has_results(target)),
        lambda: render(target).digest,
        lambda: str((lock := variant_lock(target)) and lock.hash),
        lambda: str(checkout_of(folder)),
        lambda: stamp_of(folder) if folder.is_dir() else "",
        lambda: (Engine.connect().image(image_name(target)) or {}).get("Id", ""),
    ):
        try:
            parts.append(part())
        except (ReprokitError, OSError) as error:
            parts.append(str(error))
    return "\n".join(parts)


def _has_results(target: Target) -> bool:
    """Whether there is a record of the recipe and variant."""
    from reprokit.commands.results import results_file
    from reprokit.results.index import read_groups

    file = results_file(target.recipe.name)
    wanted = (target.recipe.name, target.variant_name)
    found = read_groups(file) if file.exists() else []
    return any((group.identity["recipe"], group.identity["variant"]) == wanted for group in found)


def _needless(step: str, target: Target) -> str:
    """Why a step has nothing to do, or "". A stale lock is locked again."""
    from reprokit.errors import WorkFailed
    from reprokit.image.lock.read import fresh_lock
    from reprokit.image.render import render

    try:
        lock = fresh_lock(target, render(target))
    except WorkFailed:
        return ""
    if step == "lock":
        return "it is locked" if lock else ""
    return "" if lock else "without a lock, the build fetches"
