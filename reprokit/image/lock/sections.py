"""What each section of a lock is resolved from, as hashes: by them a stale lock is seen without engine or network."""

from __future__ import annotations

from reprokit.image.blocks import wheel_requirements
from reprokit.image.platform import platform_of
from reprokit.image.render import Rendered
from reprokit.recipe.find import Target
from reprokit.supply.lock.model import Section, VariantLock
from reprokit.supply.store import key_of

SECTIONS = tuple(Section.model_fields)


def sections(target: Target, rendered: Rendered, machine: str) -> Section:
    """The hashes for a variant as its recipe and blocks are now. `machine` is that of the image, such as `x86_64`."""
    variant = target.variant
    wheels = wheel_requirements(target)
    installs = [[list(i.packages), list(i.before), list(i.components)] for i in rendered.installs]
    inputs = {
        "base": [variant.base, machine],
        "apt": [variant.base, machine, installs],
        "wheels": _wheels(target, wheels, machine) if wheels or variant.sdists else [],
        "git": [[source.git, source.commit, source.submodules] for source in variant.sources],
        "files": [[file.name, file.urls, file.sha256] for file in variant.files],
        "conda": [variant.conda, variant.conda_channels, machine] if variant.conda else [],
    }
    return Section(**{name: key_of(value) for name, value in inputs.items()})


def _wheels(target: Target, wheels: list[str], machine: str) -> list[object]:
    platform = platform_of(target, machine)
    sdists = [sdist.model_dump() for sdist in target.variant.sdists]
    return [wheels, sdists, target.variant.wheel_indexes, [platform.python, platform.glibc, platform.machine]]


def stale(target: Target, rendered: Rendered, lock: VariantLock) -> list[str]:
    """The sections of a lock that say what the recipe no longer says."""
    now = sections(target, rendered, lock.machine)
    return [name for name in SECTIONS if getattr(now, name) != getattr(lock.inputs, name)]
