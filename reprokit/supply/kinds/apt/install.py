"""Calls of apt-get in blocks, and how locked packages differ from today's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.errors import SourceError
from reprokit.supply.kinds.kind import UpstreamChange
from reprokit.supply.lock.model import AptPackage


@dataclass(frozen=True)
class AptInstall:
    """One call of apt-get in a block.

    `packages` are its arguments (`name` or `name=version`), `before` the packages that earlier steps install, and
    `components` the required ones of the distribution's main archive besides `main`.
    """

    block: str
    packages: tuple[str, ...]
    before: tuple[str, ...] = ()
    components: tuple[str, ...] = ()


@dataclass(frozen=True)
class FollowedSets:
    """The packages of installs as another lock has them, and the date of their package lists."""

    sets: Mapping[AptInstall, Sequence[AptPackage]] = field(default_factory=dict)
    as_of: str = ""


def enable(components: Sequence[str]) -> list[str]:
    """Shell lines that add these components of the distribution's main archive to sources of either format."""
    more = " ".join(components)
    line = rf"s/^(deb .* $suite main)$/\1 {more}/"
    stanza = rf"/^Suites: $suite( |$)/,/^Components:/ s/^(Components: main)$/\1 {more}/"
    return [
        'suite="$(. /etc/os-release; echo "$VERSION_CODENAME")"',
        "for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do \\\n"
        f'        [ ! -f "$file" ] || sed -i -E "{line}; {stanza}" "$file"; \\\n'
        "    done",
    ]


def is_vendors(reference: str) -> bool:
    """Whether the image is NVIDIA's or PyTorch's: the block `base` removes the vendor's apt sources from these."""
    return repository(reference).split("/")[0] in ("nvidia", "pytorch")


def repository(reference: str) -> str:
    """`nvidia/cuda` of `docker.io/nvidia/cuda:11.8.0-devel`: no registry, tag or digest."""
    path = reference.partition("@")[0]
    registry, _, name = path.partition("/")
    if name and ("." in registry or ":" in registry or registry == "localhost"):
        path = name
    return path.rpartition(":")[0].removeprefix("library/") if ":" in path else path.removeprefix("library/")


def drifts(locked: Sequence[AptPackage], newest: Sequence[AptPackage]) -> tuple[str, ...]:
    """Packages whose content differs, by name: `curl 7.88.1-10 -> 7.88.1-11`."""
    before = {(p.name, p.architecture): p for p in locked}
    after = {(p.name, p.architecture): p for p in newest}
    differences = []
    for key in {*before, *after}:
        old, new = before.get(key), after.get(key)
        if (old and old.sha256) != (new and new.sha256):
            differences.append(f"{key[0]} {old.version if old else 'new'} -> {new.version if new else 'gone'}")
    return tuple(sorted(differences))


def changed_packages(kind: str, locked: Sequence[AptPackage], newest: Mapping[str, str]) -> list[UpstreamChange]:
    """The locked packages that upstream has in another version, or no longer."""
    return sorted(
        UpstreamChange(kind, p.name, p.version, newest.get(p.name, ""), "newer" if p.name in newest else "vanished")
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
