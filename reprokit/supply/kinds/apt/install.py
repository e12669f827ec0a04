"""One call of apt-get in a block, and how a component is enabled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprokit.supply.lock.model import AptPackage


@dataclass(frozen=True)
class AptInstall:
    """One call of apt-get in a block.

    `packages` are its arguments (`name` or `name=version`), `before` the packages that earlier steps install, and
    `components` those of the distribution's main archive that are needed besides `main`.
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
    registry, _, rest = path.partition("/")
    if rest and ("." in registry or ":" in registry or registry == "localhost"):
        path = rest
    return path.rpartition(":")[0].removeprefix("library/") if ":" in path else path.removeprefix("library/")
