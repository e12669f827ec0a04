"""The platform of an image, known from its pins and its distribution before there is an image."""

from __future__ import annotations

from reprokit.errors import UsageError
from reprokit.recipe.find import Target
from reprokit.supply.wheels import Platform

# As Docker calls a machine, and as wheels do.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def platform_of(target: Target, machine: str) -> Platform:
    """What wheels must fit: the pinned Python or the distribution's, and the distribution's C library.

    Raises UsageError where nothing says which Python.
    """
    from reprokit.compat.base import parse_base
    from reprokit.compat.facts import bundled

    reference = target.variant.base
    name = target.variant.pins.get("distro") or parse_base(bundled(), reference).implied.get("distro", "")
    release = bundled()["distros"]["distros"].get(name, {})
    python = target.variant.pins.get("python") or release.get("python")
    if not python:
        raise UsageError(
            f"the Python of {reference} is not known, so no wheels can be chosen for it",
            target.label,
            'pin it: `python: "3.11"`',
        )
    # 2.28 is what most wheels of today ask for at least; a base that is not known is likely a recent one.
    glibc = release.get("glibc") or "2.28"
    return Platform(".".join(python.split(".")[:2]), glibc, MACHINES.get(machine, machine))
