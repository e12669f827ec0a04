"""The lock of a variant, and whether it still matches the recipe."""

from __future__ import annotations

from reprokit.errors import UsageError, WorkFailed
from reprokit.image.lock.sections import stale
from reprokit.image.render import Rendered
from reprokit.recipe.find import Target
from reprokit.supply.lock.file import lock_path, read
from reprokit.supply.lock.model import Lock, VariantLock


def recipe_lock(target: Target) -> Lock:
    """The lock beside the recipe, empty if there is none. Raises UsageError if it cannot be read."""
    path = lock_path(target.path)
    return read(path) if path.exists() else Lock(recipe=target.recipe.name)


def variant_lock(target: Target) -> VariantLock | None:
    """The variant's part of the lock, None if it is not locked."""
    return recipe_lock(target).variants.get(target.variant_name)


def fresh_lock(target: Target, rendered: Rendered) -> VariantLock | None:
    """Like `variant_lock`. Raises WorkFailed if the recipe has changed since."""
    lock = variant_lock(target)
    changed = stale(target, rendered, lock) if lock else []
    if changed:
        raise WorkFailed(
            f"the lock of {target.label} is stale: {', '.join(changed)} changed in the recipe",
            str(lock_path(target.path)),
            f"lock these again, and only these: `reprokit lock {target.label}`",
        )
    return lock


def needed_lock(target: Target, rendered: Rendered) -> VariantLock:
    """Like `fresh_lock`. Raises UsageError if there is none."""
    lock = fresh_lock(target, rendered)
    if lock is None:
        raise UsageError(
            f"{target.label} has no lock", str(lock_path(target.path)), f"make it: `reprokit lock {target.label}`"
        )
    return lock
