"""The platform that wheels must fit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reprokit.errors import UsageError

_PYTHON = re.compile(r"[0-9]{1,2}\.[0-9]{1,3}([.a-z0-9+]{0,20})")
_GLIBC = re.compile(r"2\.[0-9]{1,3}(\.[0-9]+)?")


@dataclass(frozen=True)
class Platform:
    """CPython `python` (such as `3.11`), `glibc` (such as `2.36`) and machine of an image."""

    python: str
    glibc: str = "2.28"
    machine: str = "x86_64"

    def __post_init__(self) -> None:
        """Raises UsageError: the values come from recipes, locks and images, which are not trusted."""
        if not _PYTHON.fullmatch(self.python):
            raise UsageError(f"python {self.python[:60]!r} is no version of CPython", hint="write it as 3.11")
        if not _GLIBC.fullmatch(self.glibc):
            raise UsageError(f"glibc {self.glibc[:60]!r} is no version of glibc", hint="write it as 2.36")

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
