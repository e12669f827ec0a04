"""`reprokit store`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit import completion
from reprokit.commands._shown import progress, say
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.supply.upkeep.collect import Plan
    from reprokit.supply.upkeep.names import StoreRow

store = typer.Typer(
    name="store",
    help="List, verify, free and copy the inputs of recipes.",
    add_completion=False,
    rich_markup_mode=None,
)

_JSON = typer.Option(False, "--json", help="Print JSON.")


@store.command()
def ls(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME[:VARIANT]", help="Else everything.", autocompletion=completion.targets),
    ] = None,
    as_json: bool = _JSON,
) -> None:
    """List the content of the store, and the locks that name it.

    For a recipe, also the missing inputs of its lock.
    """
    from reprokit.supply.store import Store
    from reprokit.supply.upkeep.names import everything, of_target

    held = Store()
    with held.in_use(say):
        rows = of_target(held, name) if name else everything(held)
    if as_json:
        from dataclasses import asdict

        _print_json([asdict(row) for row in rows])
    else:
        _print_rows(rows)


@store.command()
def verify(
    repair: bool = typer.Option(False, "--repair", help="Remove damaged entries; the next fetch downloads them."),
    as_json: bool = _JSON,
) -> None:
    """Hash every file and check every repository.

    Exit code 1 if one is damaged.
    """
    from reprokit.formatting import size
    from reprokit.supply import store as supply_store
    from reprokit.supply.upkeep import verify as upkeep

    held = supply_store.Store()
    with (held.alone if repair else held.in_use)(say), progress("verifying") as watch:
        found = upkeep.verify(held, watch)
        if repair:
            upkeep.repair(held, found.bad)
    if as_json:
        bad = [{"what": each.what, "path": str(each.path), "why": each.why} for each in found.bad]
        _print_json({"files": found.files, "repositories": found.repositories, "bytes": found.size, "bad": bad})
    else:
        for each in found.bad:
            echo(f"bad: {each.what}: {each.why} ({each.path})")
        echo(
            f"{found.files} files and {found.repositories} repositories, {size(found.size)}: "
            + (f"{len(found.bad)} bad" + (", removed" if repair else "") if found.bad else "all good")
        )
    if found.bad:
        if not repair:
            say("hint: `reprokit store verify --repair` removes them; `reprokit fetch` downloads them again")
        raise typer.Exit(1)


@store.command()
def gc(
    everything: bool = typer.Option(
        False, "--all", help="Also recent files: less than a day old, or a week for partial ones."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only show what would be removed."),
    as_json: bool = _JSON,
) -> None:
    """Remove everything that no lock names."""
    from reprokit.supply.store import Store
    from reprokit.supply.upkeep import collect

    held = Store()
    with held.alone(say):
        plan = collect.plan(held, everything)
        if not dry_run:
            collect.free(held, plan)
    if as_json:
        goes = [{"path": str(each.path), "bytes": each.size} for each in plan.goes]
        goes += [{"path": str(path), "bytes": each.size} for each in plan.leftovers for path in each.paths[:1]]
        _print_json({"freed": not dry_run, "bytes": plan.size, "goes": goes})
    else:
        _print_plan(plan, dry_run)


@store.command()
def export(
    names: Annotated[list[str], typer.Argument(metavar="NAME[:VARIANT]...", autocompletion=completion.targets)],
    out: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The bundle, such as x.rkit.")],
) -> None:
    """Write all inputs of recipes, the base image too, as a bundle without images.

    For a node that has no network: `reprokit store import` reads it there, and `reprokit build --offline` builds.
    """
    from reprokit.bundle.inputs import registry_bases
    from reprokit.bundle.write import Extras, write
    from reprokit.engine import Engine
    from reprokit.formatting import size

    engine = Engine.connect() if registry_bases(names) else None
    with progress(f"writing {out.name}") as watch:
        inputs = write(engine, [], out, extras=Extras(inputs=tuple(names)), say=say, progress=watch).inputs
    assert inputs
    count = 2 * len(inputs.recipes) + len(inputs.blobs) + len(inputs.bases)
    echo(f"{out}: {', '.join(inputs.targets)}: {count} entries, {size(out.stat().st_size)}")


@store.command("import")
def import_(
    archive: Annotated[Path, typer.Argument(metavar="FILE", help="A bundle of `reprokit store export`.")],
    recipes: Annotated[
        Path | None, typer.Option("--recipes", metavar="DIR", help="Put the bundle's recipes and locks there.")
    ] = None,
) -> None:
    """Import a bundle of `reprokit store export`. All of it is checked first."""
    from contextlib import ExitStack

    from reprokit.bundle.inputs_import import import_inputs
    from reprokit.bundle.load import checked, load_bases
    from reprokit.engine import Engine
    from reprokit.errors import UsageError
    from reprokit.supply.store import Store

    held = Store()
    with ExitStack() as stack:
        (bundle,) = checked([archive], stack, lambda path: progress(f"checking {path.name}"))
        inputs = bundle.bundle.metadata.inputs
        if inputs is None:
            raise UsageError("the bundle has no inputs", str(archive), f"load its images: `reprokit load {archive}`")
        with held.in_use(say):
            found = import_inputs(bundle, inputs, held, recipes)
        bases = load_bases(bundle, inputs, Engine.connect, say, lambda name: progress(f"loading {name}"))
    echo(
        f"{', '.join(inputs.targets)}: {found.files} new files, {found.repositories} new repositories, "
        f"{bases} new base images"
    )
    if found.differing:
        say(*found.differing, "hint: --recipes DIR puts the bundle's recipes and locks into a folder")


def _print_rows(rows: Sequence[StoreRow]) -> None:
    from reprokit.formatting import size
    from reprokit.supply.upkeep.names import totals

    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        locks = ", ".join(row.locks) or "no lock"
        amount = size(row.size) if row.here else "missing"
        echo(f"{row.kind:<7} {row.name:<{width}} {amount:>8}  {row.key[:12]}  {locks}")
    for kind, (count, total) in totals(rows).items():
        say(f"{kind}: {count}, {size(total)}")
    if missing := sum(not row.here for row in rows):
        say(f"missing: {missing}; `reprokit fetch` downloads them")
    if not rows:
        say("nothing; `reprokit fetch NAME` downloads the inputs of its lock")


def _print_plan(plan: Plan, dry_run: bool) -> None:
    from reprokit.formatting import size

    if dry_run:
        for each in plan.goes:
            what = each.key if isinstance(each.key, str) else f"{each.key.name} at {each.key.commit}"
            echo(f"{size(each.size):>8}  {what}")
        for leftover in plan.leftovers:
            echo(f"{size(leftover.size):>8}  {leftover.paths[0]}")
    say(f"kept, named by locks: {len(plan.named)}, {size(sum(each.size for each in plan.named))}")
    if plan.young:
        say(f"kept, recent: {len(plan.young)}, {size(sum(each.size for each in plan.young))} (--all)")
    verb = "would be freed" if dry_run else "freed"
    echo(f"{verb}: {len(plan.goes) + len(plan.leftovers)}, {size(plan.size)}")


def _print_json(value: Any) -> None:

    dump(value)
