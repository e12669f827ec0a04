"""A hash of what each section of a lock was resolved from, to find a stale lock without engine or network."""

from __future__ import annotations

from reprokit.image.blocks import wheel_requirements
from reprokit.image.platform import platform_of
from reprokit.image.render import Rendered
from reprokit.recipe.find import Target
from reprokit.supply.kinds import kinds
from reprokit.supply.kinds.kind import InputRequest
from reprokit.supply.lock.model import Section, VariantLock
from reprokit.supply.store import key_of

SECTIONS = tuple(Section.model_fields)


def request_of(target: Target, rendered: Rendered, machine: str) -> InputRequest:
    """What a variant requires of each kind of input. `machine` is the image's, such as `x86_64`."""
    variant = target.variant
    wheels = wheel_requirements(target)
    # Other variants may have no Python whose version is known.
    platform = platform_of(target, machine) if wheels or variant.sdists or variant.conda else None
    return InputRequest(variant, machine, wheels, rendered.installs, platform)


def sections(target: Target, rendered: Rendered, machine: str) -> Section:
    """The hashes of a variant as its recipe and blocks are now."""
    request = request_of(target, rendered, machine)
    asked = {kind.name: kind.asked(request) for kind in kinds()}
    inputs = {"base": [request.variant.base, request.machine], **asked}
    return Section(**{name: key_of(value) for name, value in inputs.items()})


def stale(target: Target, rendered: Rendered, lock: VariantLock) -> list[str]:
    """The sections of a lock that no longer match the recipe."""
    now = sections(target, rendered, lock.machine)
    return [name for name in SECTIONS if getattr(now, name) != getattr(lock.inputs, name)]
