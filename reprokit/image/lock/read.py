"""The lock of a variant, whether it still matches the recipe, and whether an image matches both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from reprokit.errors import UsageError, WorkFailed
from reprokit.image.render import Rendered, render
from reprokit.image.request import request_of
from reprokit.recipe.find import Target
from reprokit.recipe.model import Data
from reprokit.supply.kinds import all_kinds
from reprokit.supply.lock.file import lock_path, read
from reprokit.supply.lock.model import KINDS, Lock, PlainFile, RecordFile, VariantLock
from reprokit.supply.store import key_of

SECTIONS = ("base", *KINDS)
_EMPTY = key_of([])

Freshness = Literal["current", "drifted", "other inputs", "no lock", "stale lock"]


def recipe_lock(target: Target) -> Lock:
    """The lock beside the recipe, empty if there is none. Raises UsageError if it cannot be read."""
    path = lock_path(target.path)
    return read(path) if path.exists() else Lock(recipe=target.recipe.name)


def variant_lock(target: Target) -> VariantLock | None:
    """The variant's part of the lock, None if it is not locked."""
    return recipe_lock(target).variants.get(target.variant_name)


def sections(target: Target, rendered: Rendered | None, machine: str) -> dict[str, str]:
    """A hash of the requests of each section of a lock, to detect a stale lock without engine or network."""
    request = request_of(target, rendered, machine)
    inputs = {"base": [target.variant.base, machine]} | {kind.name: kind.resolved_from(request) for kind in all_kinds()}
    return {name: key_of(value) for name, value in inputs.items()}


def stale(target: Target, rendered: Rendered | None, lock: VariantLock) -> list[str]:
    """The sections of a lock that no longer match the recipe; one that the lock lacks counts as empty.

    Without `rendered`, apt is not checked.
    """
    now = sections(target, rendered, lock.machine)
    return [name for name in SECTIONS if now[name] != lock.inputs.get(name, _EMPTY)]


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


def still_locked(data: Data, locked: PlainFile | RecordFile) -> bool:
    """Whether a locked file is the one that the recipe names: the same source or addresses, and no other sha256."""
    if isinstance(locked, RecordFile):
        same = locked.source == data.source
    else:
        same = not data.source and locked.urls == tuple(data.urls)
    return same and data.sha256 in (None, locked.sha256)


def stale_data(target: Target) -> list[str]:
    """Names of the recipe's data that are locked as other files."""
    locked = {file.name: file for file in recipe_lock(target).data}
    named = (data for data in target.recipe.data if data.name in locked)
    return [data.name for data in named if not still_locked(data, locked[data.name])]


def fresh_data(target: Target) -> tuple[PlainFile | RecordFile, ...]:
    """The locked data. Raises WorkFailed if the recipe names other files now."""
    if changed := stale_data(target):
        raise WorkFailed(
            f"the lock of {target.recipe.name} is stale: the data {', '.join(changed)} changed in the recipe",
            str(lock_path(target.path)),
            f"lock it again: `reprokit lock {target.label}`; with --data if its checksum is unknown",
        )
    return recipe_lock(target).data


def needed_lock(target: Target) -> VariantLock:
    """Like `fresh_lock`. Raises UsageError if there is none."""
    lock = fresh_lock(target, render(target))
    if lock is None:
        hint = f"make it: `reprokit lock {target.label}`"
        raise UsageError(f"{target.label} has no lock", str(lock_path(target.path)), hint)
    return lock


def freshness(target: Target, labels: Mapping[str, str]) -> Freshness:
    """Whether an image with these labels is up to date. Raises UsageError if recipe or lock cannot be read.

    Without a lock, the Dockerfile alone decides, and an image without its digest is current. A drifted image has newer
    apt packages than the lock (`build --drift`).
    """
    from reprokit.image.labels import ImageLabels  # imports docker, which `check` does not need

    rendered, image = render(target), ImageLabels.read(labels)
    try:
        lock = fresh_lock(target, rendered)
    except WorkFailed:
        return "stale lock"
    if lock is None:
        return "no lock" if image.dockerfile in ("", rendered.digest) else "other inputs"
    if image.inputs != rendered.locked_hash(lock):
        return "other inputs"
    return "drifted" if image.drift else "current"


class StaleImage(NamedTuple):
    """Why an image is stale, and how to renew it.

    With `unknown` it may also be current: its recipe, or a file that this names, cannot be read.
    """

    problem: str
    remedy: str
    unknown: bool = False

    @property
    def line(self) -> str:
        return f"{self.problem}; {self.remedy}"


def stale_image(target: Target, labels: Mapping[str, str]) -> StaleImage | None:
    """Why an image with these labels does not match recipe and lock, or may not match them.

    None if it matches.
    """
    label = target.label
    try:
        state = freshness(target, labels)
    except UsageError as error:
        problem = (
            f"it is unknown whether the image of {label} is stale: its recipe cannot be built now: {error.message}"
        )
        return StaleImage(problem, f"`reprokit check {label}` shows where", True)
    if state == "stale lock":
        remedy = f"`reprokit lock {label}` and `reprokit build {label}` renew it"
        return StaleImage(f"the image of {label} is stale: the recipe has changed since it was locked", remedy)
    if state == "other inputs":
        why = "recipe or lock have changed since it was built"
        return StaleImage(f"the image of {label} is stale: {why}", f"`reprokit build {label}` renews it")
    return None
