"""`reprokit lock`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.untrusted.text import echo

if TYPE_CHECKING:
    from reprokit.recipe.find import Target
    from reprokit.supply.lock.model import VariantLock


def lock(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME[:VARIANT]", help="Every variant of NAME.", autocompletion=completion.targets),
    ] = None,
    update: Annotated[
        list[str] | None,
        typer.Option(
            "--update", metavar="PIN", help="Resolve it again: a wheel, a source, a section such as apt, all."
        ),
    ] = None,
    check: bool = typer.Option(False, "--check", help="Write nothing; exit with 1 if a lock is stale or missing."),
    data: bool = typer.Option(False, "--data", help="Also lock data of unknown checksum, which is downloaded."),
) -> None:
    """Resolve all inputs of recipes, and write the locks beside them."""
    from reprokit.errors import UsageError
    from reprokit.recipe.find import current_targets, recipe_names

    names = names or []
    if not names and not check:
        raise UsageError(
            "name a recipe to lock", hint="`reprokit lock NAME[:VARIANT]`; `reprokit list` shows the recipes"
        )
    # The authors' own stacks are never built, so they are locked only by name.
    targets = current_targets(names or recipe_names())
    if check:
        _check(targets, bool(names))
    else:
        _lock(targets, update or [], data)


def _check(targets: list[Target], named: bool) -> None:
    """Compare locks with recipes. Recipes without any lock are skipped unless they are named."""
    from reprokit.image.lock.read import recipe_lock, variant_lock
    from reprokit.image.lock.sections import stale
    from reprokit.image.render import render

    bad = False
    for target in targets:
        locked = variant_lock(target)
        if locked is None:
            if named or recipe_lock(target).variants:
                echo(f"{target.label}: no lock")
                bad |= named
            continue
        changed = stale(target, render(target), locked)
        echo(f"{target.label}: " + (f"stale: {', '.join(changed)}" if changed else "up to date"))
        bad |= bool(changed)
    if bad:
        raise typer.Exit(1)


def _lock(targets: list[Target], update: list[str], data: bool) -> None:
    """Lock each variant and write it at once, even if others fail."""
    from reprokit.commands._shown import say
    from reprokit.engine import Engine
    from reprokit.errors import ReprokitError
    from reprokit.image.lock.read import recipe_lock
    from reprokit.image.lock.resolve import Locker, data_of, update_of
    from reprokit.supply.lock.file import lock_path, write
    from reprokit.supply.mirrors.places import Mirrors
    from reprokit.supply.store import Store

    engine, store = Engine.connect(), Store()
    failed: list[tuple[Target, ReprokitError]] = []
    for target in targets:
        whole = recipe_lock(target)
        old = whole.variants.get(target.variant_name)
        freed = update_of(update, target, old)
        mirrors = Mirrors(store, indexes=target.variant.wheel_indexes)
        say(f"locking {target.label}")
        try:
            found = Locker(engine, target, store, mirrors, old, freed, say).lock()
            files = data_of(target.recipe, whole.data, data, store, mirrors, say)
        except ReprokitError as error:
            if len(targets) == 1:
                raise
            say(f"{target.label}: {error.message}")
            failed.append((target, error))
            continue
        variants = {**whole.variants, target.variant_name: found}
        order = {name: variants[name] for name in target.recipe.variants if name in variants}
        path = lock_path(target.path)
        write(path, whole.model_copy(update={"variants": order, "data": files}))
        echo(f"{target.label}: " + ("unchanged" if found == old else _counted(found)) + f" ({path})")
    if failed:
        _, first = failed[0]
        first.message = f"{len(failed)} of {len(targets)} variants could not be locked; the first: {first.message}"
        raise first


def _counted(lock: VariantLock) -> str:
    from reprokit.formatting import size
    from reprokit.supply.kinds import kinds

    total = sum(locked.size for locked in lock.locked_inputs())
    found = {kind.name: len(getattr(lock, kind.name)) for kind in kinds()}
    counts = ", ".join(f"{count} {name}" for name, count in found.items() if count)
    return f"locked {counts or 'only the base'}, {size(total)}"
