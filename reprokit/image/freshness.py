"""Whether an image, here or on a node, is up to date with its recipe and lock, by its labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from reprokit.errors import WorkFailed
from reprokit.image.inputs import locked_hash
from reprokit.image.labels import INPUTS
from reprokit.image.lock.read import fresh_lock
from reprokit.image.render import render
from reprokit.recipe.find import Target

Freshness = Literal["current", "other inputs", "no lock", "stale lock"]


def required_inputs(target: Target) -> str | None:
    """The hash of the inputs of `build`, None without a lock. Raises WorkFailed if the lock is stale."""
    rendered = render(target)
    lock = fresh_lock(target, rendered)
    return locked_hash(rendered, lock) if lock else None


def freshness(target: Target, labels: Mapping[str, str]) -> Freshness:
    """Whether an image with these labels is up to date. Raises UsageError if a lock cannot be read."""
    try:
        required = required_inputs(target)
    except WorkFailed:
        return "stale lock"
    if required is None:
        return "no lock"
    return "current" if labels.get(INPUTS) == required else "other inputs"
