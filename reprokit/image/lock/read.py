"""The lock that belongs to a variant, and whether it still says what the recipe says."""

from __future__ import annotations

from reprokit.errors import UsageError, WorkFailed
from reprokit.image.lock.sections import stale
from reprokit.image.render import Rendered
from reprokit.recipe.find import Target
from reprokit.supply.lock.file import lock_path, read
from reprokit.supply.lock.model import Lock, VariantLock


def recipe_lock(target: Target) -> Lock:
    """The lock beside the recipe, empty where there is none. Raises UsageError where it cannot be read."""
    path = lock_path(target.path)
    return read(path) if path.exists() else Lock(recipe=target.recipe.name)


def variant_lock(target: Target) -> VariantLock | None:
    """The variant's part of its lock, None where it is not locked."""
    return recipe_lock(target).variants.get(target.variant_name)


def fresh_lock(target: Target, rendered: Rendered) -> VariantLock | None:
    """The same, for use. Raises WorkFailed where it is stale: what is built would not be what the recipe says."""
    lock = variant_lock(target)
    changed = stale(target, rendered, lock) if lock else []
    if changed:
        raise WorkFailed(
            f"the lock of {target.label} is stale: the recipe says other {', '.join(changed)} now",
            str(lock_path(target.path)),
            f"`reprokit lock {target.label}` resolves them anew and leaves the rest as it is",
        )
    return lock


def needed_lock(target: Target, rendered: Rendered) -> VariantLock:
    """The same where there must be one. Raises UsageError where there is none."""
    lock = fresh_lock(target, rendered)
    if lock is None:
        raise UsageError(
            f"{target.label} has no lock", str(lock_path(target.path)), f"write it: `reprokit lock {target.label}`"
        )
    return lock
