"""`reprokit lock`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.recipe.find import Target
    from reprokit.supply.kinds.kind import UpstreamChange
    from reprokit.supply.lock.model import VariantLock

_SHORT = 40
_WORDS = {
    "newer": "is no longer the newest",
    "vanished": "has vanished",
    "changed": "has changed under the same name",
    "yanked": "was withdrawn by its publisher",
    "unknown": "could not be checked",
}


def lock(
    names: Annotated[list[str] | None, options.recipes("Every variant of NAME.")] = None,
    update: Annotated[
        list[str] | None,
        typer.Option(metavar="PIN", help="Resolve it again: a wheel, a source, a section such as apt, all."),
    ] = None,
    check: bool = options.flag("--check", "Write nothing; exit with 1 if a lock is stale or missing."),
    outdated: bool = options.flag(
        "--outdated", "Write nothing; list inputs that upstream has changed, removed or replaced since."
    ),
    every: options.Every = False,
    data: bool = options.flag("--data", "Also lock data of unknown checksum, which is downloaded."),
    as_of: str = typer.Option(
        "", "--as-of", metavar="DATE|commit|now", help="Resolve wheels again, to what the indexes had on that day."
    ),
    force: bool = options.flag("--force", "Lock despite errors of `check`."),
    as_json: options.Json = False,
) -> None:
    """Resolve all inputs of recipes, and write the locks beside them.

    With --outdated, exit 1 if an input is gone, withdrawn or changed; newer versions are no failure. Exit 4 if one
    could not be checked.
    """
    from reprokit.errors import UsageError
    from reprokit.explain.last import explained
    from reprokit.recipe.find import current_targets, default_names

    names = names or []
    if not names and not check:
        raise UsageError(
            "name a recipe to lock", hint="`reprokit lock NAME[:VARIANT]`; `reprokit list` shows the recipes"
        )
    if (check or outdated) and (update or data or as_of or force or (check and outdated)):
        raise UsageError(f"{'--check' if check else '--outdated'} writes nothing", hint="leave out the other options")
    if outdated:
        from reprokit.recipe.find import target

        _list_outdated([target(name) for name in names], as_json)
        return
    # The authors' own stacks are never built, so they are locked only by name.
    targets = current_targets(names or default_names(every))
    if check:
        _check(targets, bool(names), as_json)
        return
    with explained(targets[0] if len(targets) == 1 else None):
        _lock(targets, update or [], data, as_of, force, as_json)


def _check(targets: list[Target], named: bool, as_json: bool) -> None:
    """Compare locks with recipes. Recipes without any lock file are skipped unless they are named."""
    from reprokit.image.lock.read import recipe_lock, stale, stale_data, variant_lock
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
    from reprokit.image.lock.resolve import lock as lock_target

    engine = Engine.connect()
    failed: list[tuple[Target, ReprokitError]] = []
    rows: list[dict[str, Any]] = []
    for target in targets:
        try:
            done = lock_target(engine, target, update, data=data, as_of=as_of, force=force)
        except ReprokitError as error:
            if len(targets) == 1:
                raise
            notify(f"{target.label}: {error.message}")
            failed.append((target, error))
            continue
        rows.append({"recipe": target.label, "lock": str(done.path), "changed": done.changed, **_counts(done.lock)})
        if not as_json:
            echo(f"{target.label}: " + (_counted(done.lock) if done.changed else "unchanged") + f" ({done.path})")
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


def _counts(lock: VariantLock) -> dict[str, Any]:
    """The number of inputs of each kind, and the bytes of all files."""
    from reprokit.supply.kinds import all_kinds

    total = sum(locked.size for locked in lock.locked_inputs())
    return {"inputs": {kind.name: len(getattr(lock, kind.name)) for kind in all_kinds()}, "bytes": total}


def _counted(lock: VariantLock) -> str:
    from reprokit.formatting import size

    amounts = _counts(lock)
    counts = ", ".join(f"{count} {name}" for name, count in amounts["inputs"].items() if count)
    return f"locked {counts or 'only the base'}, {size(amounts['bytes'])}"


def _list_outdated(targets: Sequence[Target], as_json: bool) -> None:
    """List inputs that upstream has changed, removed or replaced since they were locked.

    Exit 1 if one is gone, withdrawn or changed; newer versions are no failure. Exit 4 if one could not be checked.
    """
    from reprokit.engine import Engine
    from reprokit.errors import SourceError
    from reprokit.image.lock.outdated import outdated as find_moved
    from reprokit.image.lock.read import needed_lock
    from reprokit.supply.mirrors import Mirrors
    from reprokit.supply.store import Store

    locks = [needed_lock(target) for target in targets]
    engine, store = Engine.connect(), Store()
    by_target: dict[str, list[UpstreamChange]] = {}
    errors = []
    for target, lock in zip(targets, locks, strict=True):
        mirrors = Mirrors(store, indexes=target.variant.wheel_indexes)
        by_target[target.label], failed = find_moved(engine, target, lock, mirrors)
        errors += failed
    if as_json:
        dump({label: [asdict(m) for m in changes] for label, changes in by_target.items()})
    else:
        for label, changes in by_target.items():
            _print_outdated(label, changes)
    if errors:
        raise errors[0]
    kinds_of_change = [m.what for changes in by_target.values() for m in changes]
    if unknown := kinds_of_change.count("unknown"):
        raise SourceError(
            f"{unknown} of the locked inputs could not be checked", hint="repeat it when upstream answers"
        )
    if set(kinds_of_change) - {"newer"}:
        raise typer.Exit(1)


def _print_outdated(label: str, changes: list[UpstreamChange]) -> None:
    if not changes:
        echo(f"{label}: unchanged upstream")
    for m in changes:
        upstream = f", upstream has {m.upstream[:_SHORT]}" if m.upstream else ""
        if m.what == "unknown":
            upstream = f": {m.upstream}"
        echo(f"{label}: {m.kind}: {m.name} {m.locked[:_SHORT]} {_WORDS[m.what]}{upstream}")
