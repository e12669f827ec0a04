"""Releases of Debian and Ubuntu that can be bootstrapped."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.compat.base import parse_base
from reprokit.compat.facts import bundled

# As in Docker's own images: all four of Ubuntu, only main of Debian.
_COMPONENTS = {"debian": "main", "ubuntu": "main,restricted,universe,multiverse"}


@dataclass(frozen=True)
class Release:
    """A distribution's release, such as debian 12 (bookworm)."""

    distribution: str
    version: str
    codename: str

    @property
    def name(self) -> str:
        return f"{self.distribution} {self.version} ({self.codename})"

    @property
    def components(self) -> str:
        """The archive's components, separated by commas."""
        return _COMPONENTS[self.distribution]


def release_of(reference: str) -> Release | None:
    """The release of a reference such as `debian:12`, `debian:bookworm-slim` or `ubuntu:20.04`, or None."""
    base = parse_base(bundled(), reference)
    name = base.implied.get("distro", "") if base.kind == "distro" else ""
    facts = bundled().distros.distros.get(name)
    if facts is None:
        return None
    distribution, _, version = name.partition(":")
    return Release(distribution, version, facts.codename)
