"""`reprokit lock`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.recipe.find import Target
    from reprokit.supply.lock.model import VariantLock
    from reprokit.supply.mirrors.places import Mirrors


def lock(
    names: Annotated[list[str] | None, options.recipes("Every variant of NAME.")] = None,
    update: Annotated[
        list[str] | None,
        typer.Option(metavar="PIN", help="Resolve it again: a wheel, a source, a section such as apt, all."),
    ] = None,
    check: bool = options.flag("--check", "Write nothing; exit with 1 if a lock is stale or missing."),
    every: options.Every = False,
    data: bool = options.flag("--data", "Also lock data of unknown checksum, which is downloaded."),
    as_of: str = typer.Option(
        "", "--as-of", metavar="DATE|commit|now", help="Resolve wheels again, to what the indexes had on that day."
    ),
    force: bool = options.flag("--force", "Lock despite errors of `check`."),
    as_json: options.Json = False,
) -> None:
    """Resolve all inputs of recipes, and write the locks beside them."""
    from reprokit.display import StepDisplay
    from reprokit.errors import UsageError
    from reprokit.explain.last import explained
    from reprokit.recipe.find import current_targets, default_names

    names = names or []
    if not names and not check:
        raise UsageError(
            "name a recipe to lock", hint="`reprokit lock NAME[:VARIANT]`; `reprokit list` shows the recipes"
        )
    if check and (update or data or as_of or force):
        raise UsageError("--check writes nothing", hint="leave out --update, --data, --as-of and --force")
    # The authors' own stacks are never built, so they are locked only by name.
    targets = current_targets(names or default_names(every))
    if check:
        _check(targets, bool(names), as_json)
        return
    with explained(targets[0] if len(targets) == 1 else None), StepDisplay(sys.stderr):
        _lock(targets, update or [], data, as_of, force, as_json)


def _check(targets: list[Target], named: bool, as_json: bool) -> None:
    """Compare locks with recipes. Recipes without any lock file are skipped unless they are named."""
    from reprokit.image.lock.read import recipe_lock, stale_data, variant_lock
    from reprokit.image.lock.sections import stale
    from reprokit.image.render import render

    bad = False
    rows: list[dict[str, Any]] = []
    for target in targets:
        locked = variant_lock(target)
        if locked is None:
            if named or recipe_lock(target).variants:
                rows.append({"recipe": target.label, "state": "missing", "stale": []})
                bad = True
            continue
        changed = [*stale(target, render(target), locked), *(f"data {name}" for name in stale_data(target))]
        rows.append({"recipe": target.label, "state": "stale" if changed else "up to date", "stale": changed})
        bad |= bool(changed)
    if as_json:
        dump({"ok": not bad, "locks": rows})
    for row in () if as_json else rows:
        described = {"missing": "no lock", "stale": f"stale: {', '.join(row['stale'])}"}
        echo(f"{row['recipe']}: {described.get(row['state'], row['state'])}")
    if bad:
        raise typer.Exit(1)


def _lock(targets: list[Target], update: list[str], data: bool, as_of: str, force: bool, as_json: bool) -> None:
    """Lock each variant and write it at once, even if others fail."""
    from reprokit.engine import Engine
    from reprokit.errors import ReprokitError
    from reprokit.explain.last import explained
    from reprokit.image.lock.fit import errors_of
    from reprokit.image.lock.read import recipe_lock
    from reprokit.image.lock.resolve import data_of, lock_variant, merged_data, update_of
    from reprokit.supply.lock.file import changing, check_writable, lock_path, write
    from reprokit.supply.mirrors.places import Mirrors
    from reprokit.supply.store import Store

    engine, store = Engine.connect(), Store()
    failed: list[tuple[Target, ReprokitError]] = []
    rows: list[dict[str, Any]] = []
    for target in targets:
        whole = recipe_lock(target)
        old = whole.variants.get(target.variant_name)
        freed = update_of([*update, *(["wheels"] if as_of else [])], target, old)
        mirrors = Mirrors(store, indexes=target.variant.wheel_indexes)
        notify(f"locking {target.label}")
        path = lock_path(target.path)
        try:
            check_writable(path)
            time = _time_of(as_of, target, mirrors) if as_of else ""
            found = lock_variant(engine, target, store, mirrors, old, freed, time)
            errors_of(target, force, found)
            files = data_of(target.recipe, whole.data, data, mirrors)
        except ReprokitError as error:
            if len(targets) == 1:
                raise
            notify(f"{target.label}: {error.message}")
            failed.append((target, error))
            continue
        with changing(path):
            now = recipe_lock(target)  # meanwhile another process may have locked another variant
            variants = {**now.variants, target.variant_name: found}
            order = {name: variants[name] for name in target.recipe.variants if name in variants}
            write(path, now.model_copy(update={"variants": order, "data": merged_data(target.recipe, files, now.data)}))
        rows.append({"recipe": target.label, "lock": str(path), "changed": found != old, **_counts(found)})
        if not as_json:
            echo(f"{target.label}: " + ("unchanged" if found == old else _counted(found)) + f" ({path})")
    if as_json:
        dump(
            {
                "ok": not failed,
                "locks": rows,
                "failed": [{"recipe": target.label, "reason": error.message} for target, error in failed],
            }
        )
    if failed:
        target, first = failed[0]
        first.message = f"{len(failed)} of {len(targets)} variants could not be locked; the first: {first.message}"
        with explained(target):
            raise first


def _time_of(as_of: str, target: Target, mirrors: Mirrors) -> str:
    """The time of `--as-of`; `commit` is that of the variant's first source. Raises UsageError, SourceError."""
    from reprokit.importing.asof import moment_of
    from reprokit.importing.tree import commit_date
    from reprokit.supply.kinds.git.fetch import ensure
    from reprokit.supply.kinds.git.store import folder_of
    from reprokit.supply.locked_input import Commit

    date = None
    if as_of == "commit" and target.variant.sources:
        source = target.variant.sources[0]
        commit = Commit(source.git, source.commit)
        ensure([commit], mirrors)
        date = commit_date(folder_of(commit, mirrors.store), source.commit)
    moment = moment_of(as_of, date, target.label)
    if moment.time:
        notify(f"wheels are those of {moment.day}; apt, conda and files have no dates, and are today's")
    return moment.time


def _counts(lock: VariantLock) -> dict[str, Any]:
    """The number of inputs of each kind, and the bytes of all files."""
    from reprokit.supply.kinds import kinds

    total = sum(locked.size for locked in lock.locked_inputs())
    return {"inputs": {kind.name: len(getattr(lock, kind.name)) for kind in kinds()}, "bytes": total}


def _counted(lock: VariantLock) -> str:
    from reprokit.formatting import size

    found = _counts(lock)
    counts = ", ".join(f"{count} {name}" for name, count in found["inputs"].items() if count)
    return f"locked {counts or 'only the base'}, {size(found['bytes'])}"
