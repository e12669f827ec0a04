"""Differences between locked packages and today's, and the error when they stop a build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reprokit.errors import SourceError
from reprokit.supply.kinds.kind import Moved
from reprokit.supply.lock.model import AptPackage


def drifts(locked: Sequence[AptPackage], taken: Sequence[AptPackage]) -> tuple[str, ...]:
    """Packages whose content differs, by name: `curl 7.88.1-10 -> 7.88.1-11`."""
    before = {(p.name, p.architecture): p for p in locked}
    after = {(p.name, p.architecture): p for p in taken}
    found = []
    for key in {*before, *after}:
        old, new = before.get(key), after.get(key)
        if (old and old.sha256) != (new and new.sha256):
            found.append(f"{key[0]} {old.version if old else 'new'} -> {new.version if new else 'gone'}")
    return tuple(sorted(found))


def moved_packages(kind: str, locked: Sequence[AptPackage], newest: Mapping[str, str]) -> list[Moved]:
    """The locked packages that upstream has in another version, or no longer."""
    return sorted(
        Moved(kind, p.name, p.version, newest.get(p.name, ""), "newer" if p.name in newest else "vanished")
        for p in locked
        if newest.get(p.name) != p.version
    )


def dropped(packages: Sequence[AptPackage], label: str) -> SourceError:
    """The error for locked packages of the variant `label` that no mirror has."""
    more = f", nor are {len(packages) - 1} more" if len(packages) > 1 else ""
    return SourceError(
        f"apt package {packages[0].name} {packages[0].version} is on no mirror any more{more}",
        label,
        f"`reprokit lock {label} --update apt`, or build --drift",
    )
