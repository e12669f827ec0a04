"""The platform that wheels must fit, and sets of wheels that fit together."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.supply.lock.model import Distribution
from reprokit.supply.store import key_of


@dataclass(frozen=True)
class Platform:
    """What the wheels run on: CPython `python` (such as `3.11`), glibc (such as `2.36`) and machine of the image."""

    python: str
    glibc: str = "2.28"
    machine: str = "x86_64"

    def tags(self) -> list[str]:
        """Platform tags from the newest manylinux that this glibc can load to the oldest."""
        newest = int(self.glibc.split(".")[1])
        tags = [f"manylinux_2_{minor}_{self.machine}" for minor in range(newest, 4, -1)]
        legacy = {"x86_64": ("manylinux2014", "manylinux2010", "manylinux1"), "aarch64": ("manylinux2014",)}
        return [
            *tags,
            *(f"{tag}_{self.machine}" for tag in legacy.get(self.machine, ())),
            f"linux_{self.machine}",
        ]


@dataclass(frozen=True)
class WheelSet:
    """Wheels and sdists that satisfy a variant's requirements together."""

    wheels: tuple[Distribution, ...]

    @property
    def key(self) -> str:
        """Names the set by its content: it stands in the index's address, so that another set is another layer."""
        return key_of(sorted([w.file, w.sha256] for w in self.wheels))[:16]
