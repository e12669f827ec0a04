"""`reprokit store`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.display import notify, progress
from reprokit.tables import table
from reprokit.untrusted.terminal import dump, echo, paged

if TYPE_CHECKING:
    from reprokit.supply.upkeep import Plan, StoreRow

store = typer.Typer(
    name="store",
    help="List, verify, free and copy the inputs of recipes.",
    add_completion=False,
    rich_markup_mode=None,
)


@store.command()
def ls(
    name: Annotated[str | None, options.recipes("Else everything.", "NAME[:VARIANT]")] = None,
    as_json: options.Json = False,
) -> None:
    """List the content of the store, and the locks that name it.

    For a recipe, also the missing inputs of its lock.
    """
    from reprokit.supply.store import Store
    from reprokit.supply.upkeep import everything, of_target

    inputs_store = Store()
    with inputs_store.in_use():
        rows = of_target(inputs_store, name) if name else everything(inputs_store)
    if as_json:
        from dataclasses import asdict

        dump([asdict(row) for row in rows])
    else:
        with paged():
            _print_rows(rows)


@store.command()
def verify(
    repair: bool = options.flag("--repair", "Remove damaged entries; the next fetch downloads them."),
    as_json: options.Json = False,
) -> None:
    """Hash every file and check every repository.

    Exit code 1 if one is damaged.
    """
    from reprokit.formatting import size
    from reprokit.supply import store as supply_store
    from reprokit.supply import upkeep

    inputs_store = supply_store.Store()
    with (inputs_store.alone if repair else inputs_store.in_use)(), progress("verifying") as on_progress:
        verified = upkeep.verify(inputs_store, on_progress)
        if repair:
            upkeep.repair(inputs_store, verified.bad)
    if as_json:
        bad = [{"what": entry.what, "path": str(entry.path), "why": entry.why} for entry in verified.bad]
        dump({"files": verified.files, "repositories": verified.repositories, "bytes": verified.size, "bad": bad})
    else:
        for entry in verified.bad:
            echo(f"bad: {entry.what}: {entry.why} ({entry.path})")
        echo(
            f"{verified.files} files and {verified.repositories} repositories, {size(verified.size)}: "
            + (f"{len(verified.bad)} bad" + (", removed" if repair else "") if verified.bad else "all good")
        )
    if verified.bad:
        if not repair:
            notify("hint: `reprokit store verify --repair` removes them; `reprokit fetch` downloads them again")
        raise typer.Exit(1)


@store.command()
def gc(
    everything: bool = options.flag("--all", "Also recent files: less than a day old, or a week for partial ones."),
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Remove everything that no lock names."""
    from reprokit.supply import upkeep
    from reprokit.supply.store import Store

    inputs_store = Store()
    with inputs_store.alone():
        plan = upkeep.plan(inputs_store, everything)
        if not dry_run:
            upkeep.free(inputs_store, plan)
    if as_json:
        goes = [{"path": str(entry.path), "bytes": entry.size} for entry in plan.removed]
        goes += [{"path": str(entry.path), "bytes": entry.size} for entry in plan.leftovers]
        dump({"freed": not dry_run, "bytes": plan.size, "goes": goes})
    else:
        _print_plan(plan, dry_run)


@store.command()
def export(
    names: Annotated[list[str], options.recipes("Recipes with a lock.")],
    out: options.Output,
) -> None:
    """Write all inputs of recipes, the base image too, as a bundle without images.

    For a node that has no network: `reprokit store import` reads it there, and `reprokit build --offline` builds.
    """
    from reprokit.bundle.inputs import registry_bases
    from reprokit.bundle.write import ExportJob, write
    from reprokit.engine import Engine
    from reprokit.formatting import size

    engine = Engine.connect() if registry_bases(names) else None
    with progress(f"writing {out.name}") as report:
        job = ExportJob(engine, [], out, inputs=names, progress=report)
        inputs = write(job).inputs
    assert inputs
    count = 2 * len(inputs.recipes) + len(inputs.blobs) + len(inputs.bases)
    echo(f"{out}: {', '.join(inputs.targets)}: {count} entries, {size(out.stat().st_size)}")


@store.command("import")
def import_(
    archive: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A bundle of `reprokit store export`.", autocompletion=completion.files),
    ],
    recipes: Annotated[
        Path | None, options.file("Put the bundle's recipes and locks there.", "--recipes", metavar="DIR")
    ] = None,
    signed_by: options.SignedBy = None,
    trust: bool = options.flag("--trust", "Trust the bundle's base images, which builds start from."),
) -> None:
    """Import a bundle of `reprokit store export`. All of it is checked first.

    A bundle with base images needs --trust or --signed-by.
    """
    from contextlib import ExitStack

    from reprokit.bundle.inputs import import_inputs
    from reprokit.bundle.load import check_origin, checked, load_bases
    from reprokit.engine import Engine
    from reprokit.errors import UsageError
    from reprokit.supply.store import Store

    inputs_store = Store()
    with ExitStack() as stack:
        (bundle,) = checked([archive], stack)
        inputs = bundle.bundle.metadata.inputs
        if inputs is None:
            raise UsageError("the bundle has no inputs", str(archive), f"load its images: `reprokit load {archive}`")
        check_origin(bundle.bundle, signed_by, trust)
        with inputs_store.in_use():
            imported = import_inputs(bundle, inputs, inputs_store, recipes)
        bases = load_bases(bundle, Engine.connect)
    echo(
        f"{', '.join(inputs.targets)}: {imported.files} new files, {imported.repositories} new repositories, "
        f"{bases} new base images"
    )
    if imported.differing:
        notify(*imported.differing, "hint: --recipes DIR puts the bundle's recipes and locks into a folder")


def _print_rows(rows: Sequence[StoreRow]) -> None:
    from reprokit.formatting import size
    from reprokit.supply.upkeep import totals

    cells = [
        (
            row.kind,
            row.name,
            size(row.size) if row.here else "missing",
            row.key[:12],
            ", ".join(row.locks) or "no lock",
        )
        for row in rows
    ]
    if cells:
        table(("kind", "name", "size", "key", "locks"), cells, words=(0, 1, 3, 4))
    for kind, (count, total) in totals(rows).items():
        notify(f"{kind}: {count}, {size(total)}")
    if missing := sum(not row.here for row in rows):
        notify(f"missing: {missing}; `reprokit fetch` downloads them")
    if not rows:
        notify("nothing; `reprokit fetch NAME` downloads the inputs of its lock")


def _print_plan(plan: Plan, dry_run: bool) -> None:
    from reprokit.formatting import size

    if dry_run:
        for entry in plan.removed:
            what = entry.key if isinstance(entry.key, str) else f"{entry.key.name} at {entry.key.commit}"
            echo(f"{size(entry.size):>8}  {what}")
        for leftover in plan.leftovers:
            echo(f"{size(leftover.size):>8}  {leftover.path}")
    notify(f"kept, named by locks: {len(plan.named)}, {size(sum(entry.size for entry in plan.named))}")
    if plan.young:
        notify(f"kept, recent: {len(plan.young)}, {size(sum(entry.size for entry in plan.young))} (--all)")
    verb = "would be freed" if dry_run else "freed"
    echo(f"{verb}: {len(plan.removed) + len(plan.leftovers)}, {size(plan.size)}")
