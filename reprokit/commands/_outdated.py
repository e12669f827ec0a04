"""`reprokit lock --outdated`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.recipe.find import Target
    from reprokit.supply.kinds.kind import Moved

_SHORT = 40


def list_outdated(targets: Sequence[Target], as_json: bool) -> None:
    """List inputs that upstream has changed, removed or replaced since they were locked.

    Exit 1 if one is gone, withdrawn or changed; newer versions are no failure. Exit 4 if one could not be checked.
    """
    from reprokit.engine import Engine
    from reprokit.errors import SourceError
    from reprokit.image.lock.outdated import outdated as find_moved
    from reprokit.image.lock.read import needed_lock
    from reprokit.supply.mirrors.places import Mirrors
    from reprokit.supply.store import Store

    locks = [needed_lock(target) for target in targets]
    engine, store = Engine.connect(), Store()
    moved: dict[str, list[Moved]] = {}
    errors = []
    for target, lock in zip(targets, locks, strict=True):
        mirrors = Mirrors(store, indexes=target.variant.wheel_indexes)
        moved[target.label], failed = find_moved(engine, target, lock, store, mirrors)
        errors += failed
    if as_json:
        dump({label: [asdict(m) for m in found] for label, found in moved.items()})
    else:
        for label, found in moved.items():
            _print(label, found)
    if errors:
        raise errors[0]
    seen = [m.what for found in moved.values() for m in found]
    if unknown := seen.count("unknown"):
        raise SourceError(
            f"{unknown} of the locked inputs could not be checked", hint="repeat it when upstream answers"
        )
    if set(seen) - {"newer"}:
        raise typer.Exit(1)


def _print(label: str, found: list[Moved]) -> None:
    if not found:
        echo(f"{label}: unchanged upstream")
    for m in found:
        upstream = f", upstream has {m.upstream[:_SHORT]}" if m.upstream else ""
        if m.what == "unknown":
            upstream = f": {m.upstream}"
        echo(f"{label}: {m.kind}: {m.name} {m.locked[:_SHORT]} {_WORDS[m.what]}{upstream}")


_WORDS = {
    "newer": "is no longer the newest",
    "vanished": "has vanished",
    "changed": "has changed under the same name",
    "yanked": "was withdrawn by its publisher",
    "unknown": "could not be checked",
}
