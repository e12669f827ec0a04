"""A hash of what each section of a lock was resolved from, to find a stale lock without engine or network."""

from __future__ import annotations

from collections.abc import Collection

from reprokit.image.render import Rendered
from reprokit.image.request import request_of
from reprokit.recipe.find import Target
from reprokit.supply.kinds import kinds
from reprokit.supply.lock.model import KINDS, VariantLock
from reprokit.supply.store import key_of

SECTIONS = ("base", *KINDS)
_EMPTY = key_of([])


def sections(target: Target, rendered: Rendered | None, machine: str, by_block: Collection[str] = ()) -> dict[str, str]:
    """The hashes of a variant as its recipe and blocks are now; kinds in `by_block` are split into sets of blocks."""
    request = request_of(target, rendered, machine)
    asked = {kind.name: kind.asked(request) for kind in kinds()}
    asked |= {kind.name: [asked[kind.name], kind.asking(request)] for kind in kinds() if kind.name in by_block}
    inputs = {"base": [request.variant.base, request.machine], **asked}
    return {name: key_of(value) for name, value in inputs.items()}


def stale(target: Target, rendered: Rendered | None, lock: VariantLock) -> list[str]:
    """The sections of a lock that no longer match the recipe. A lock written before a kind existed has none of it.

    Without `rendered`, this says nothing of apt.
    """
    now = sections(target, rendered, lock.machine, lock.by_block)
    return [name for name in SECTIONS if now.get(name, _EMPTY) != lock.inputs.get(name, _EMPTY)]
