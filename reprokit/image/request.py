"""What a variant requires of each kind of input, on the platform of its image."""

from __future__ import annotations

from reprokit.compat.base import parse_base
from reprokit.compat.facts import bundled
from reprokit.errors import UsageError
from reprokit.image.render import Rendered
from reprokit.recipe.find import Target
from reprokit.supply.kinds.kind import InputRequest
from reprokit.supply.kinds.wheels.platform import Platform

# Machines as Docker names them, and as wheels do.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def request_of(target: Target, rendered: Rendered | None, machine: str) -> InputRequest:
    """What a variant requires of each kind of input. `machine` is the image's, such as `x86_64`.

    Without `rendered` it requires nothing of apt: only templates name their packages.
    """
    # Other variants may have no Python whose version is known.
    needs_platform = target.requirements or target.variant.sdists or target.variant.conda
    platform = platform_of(target, machine) if needs_platform else None
    return InputRequest(target, machine, rendered.installs if rendered else (), platform)


def platform_of(target: Target, machine: str) -> Platform:
    """The Python and C library that wheels must fit: the pinned Python or the distribution's, its C library.

    Raises UsageError if neither a pin nor a fact gives the Python.
    """
    reference = target.variant.base
    name = target.variant.pins.get("distro") or parse_base(bundled(), reference).implied.get("distro", "")
    release = bundled().distros.distros.get(name)
    python = target.variant.pins.get("python") or (release.python if release else "")
    if not python:
        unknown = f"cannot choose wheels: the Python version of {reference} is not known"
        raise UsageError(unknown, target.label, 'pin it: `python: "3.11"`')
    # Most of today's wheels need 2.28 or later; an unknown base is likely recent.
    glibc = release.glibc if release else "2.28"
    return Platform(".".join(python.split(".")[:2]), glibc, MACHINES.get(machine, machine))
