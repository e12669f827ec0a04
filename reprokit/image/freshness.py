"""How an image, wherever it is, stands to the recipe and the lock that are here: told by its labels alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from reprokit.errors import WorkFailed
from reprokit.image.inputs import locked_hash
from reprokit.image.labels import INPUTS
from reprokit.image.lock.read import fresh_lock
from reprokit.image.render import render
from reprokit.recipe.find import Target

# Without a lock nothing says, before it is resolved, what would be built.
Freshness = Literal["current", "other inputs", "no lock", "stale lock"]


def wanted_inputs(target: Target) -> str | None:
    """The hash of the inputs that `build` would take, None without a lock. Raises WorkFailed where that is stale."""
    rendered = render(target)
    lock = fresh_lock(target, rendered)
    return locked_hash(rendered, lock) if lock else None


def freshness(target: Target, labels: Mapping[str, str]) -> Freshness:
    """Whether `build` would take the image with these labels as it is. Raises UsageError where a lock is unreadable."""
    try:
        wanted = wanted_inputs(target)
    except WorkFailed:
        return "stale lock"
    if wanted is None:
        return "no lock"
    return "current" if labels.get(INPUTS) == wanted else "other inputs"
