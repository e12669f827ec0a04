"""The platform and the requirements that wheels are resolved for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import BuildTag, NormalizedName, parse_wheel_filename
from packaging.version import Version

from reprokit.errors import UsageError
from reprokit.recipe.fields import exact_version
from reprokit.recipe.model import Sdist

_PYTHON = re.compile(r"[0-9]{1,2}\.[0-9]{1,3}([.a-z0-9+]{0,20})")
_GLIBC = re.compile(r"2\.[0-9]{1,3}(\.[0-9]+)?")
# A name with several Pythons, ABIs and platforms stands for all their combinations. Real ones have up to some dozens.
_MOST_TAGS = 1000


@dataclass(frozen=True)
class Platform:
    """CPython `python` (such as `3.11`), `glibc` (such as `2.36`) and machine of an image."""

    python: str
    glibc: str = "2.28"
    machine: str = "x86_64"

    def __post_init__(self) -> None:
        """Raises UsageError: the values come from recipes, locks and images, which are not trusted."""
        if not _PYTHON.fullmatch(self.python):
            raise UsageError(f"python {self.python[:60]!r} is not a version of CPython", hint="write it as 3.11")
        if not _GLIBC.fullmatch(self.glibc):
            raise UsageError(f"glibc {self.glibc[:60]!r} is not a version of glibc", hint="write it as 2.36")

    def tags(self) -> list[str]:
        """Platform tags from the newest manylinux that this glibc can load to the oldest."""
        newest = int(self.glibc.split(".")[1])
        tags = [f"manylinux_2_{minor}_{self.machine}" for minor in range(newest, 4, -1)]
        legacy = {"x86_64": ("manylinux2014", "manylinux2010", "manylinux1"), "aarch64": ("manylinux2014",)}
        return [*tags, *(f"{tag}_{self.machine}" for tag in legacy.get(self.machine, ())), f"linux_{self.machine}"]


@dataclass(frozen=True)
class AsOf:
    """Excludes files uploaded after `time` (ISO 8601); `later` has other times for single projects.

    Files of indexes without upload times count as newer. Without a time, all files count.
    """

    time: str = ""
    later: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> list[str]:
        if not self.time:
            return []
        return [f"--exclude-newer={self.time}", *(f"--exclude-newer-package={n}={t}" for n, t in self.later.items())]


NOW = AsOf()


@dataclass(frozen=True)
class WheelRequest:
    """`sdists` need no wheel. `indexes` are the recipe's, used only if the user's own lack a version.

    `checksums` are the allowed sha256 by project, `refs` known commits of git requirements by address and tag.
    `constraints` hold for projects that something requires; with `sdists_if_needed`, `sdists` too.
    """

    requirements: Sequence[str]
    platform: Platform
    sdists: Sequence[Sdist] = ()
    indexes: Sequence[str] = ()
    as_of: AsOf = NOW
    checksums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    refs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    constraints: Sequence[str] = ()
    sdists_if_needed: bool = False

    @property
    def builds(self) -> bool:
        """Whether releases without a wheel are built: if some requirement is not an exact release of an index."""
        return any(exact_version(Requirement(text)) is None for text in self.requirements)


@lru_cache  # called for each file of a project; there may be thousands
def supported(platform: Platform) -> Mapping[Tag, int]:
    """The wheel tags of the image's pip with their rank: lower is better."""
    version = tuple(int(part) for part in platform.python.split(".")[:2])
    interpreter = f"cp{version[0]}{version[1]}"
    # Before 3.8, the ABI tag ends in `m` for builds with pymalloc, as of every distribution.
    abi = interpreter + ("m" if version < (3, 8) else "")
    tags = [*cpython_tags(version, [abi], platform.tags()), *compatible_tags(version, interpreter, platform.tags())]
    return {tag: rank for rank, tag in enumerate(tags)}


def parsed_wheel(file: str) -> tuple[NormalizedName, Version, BuildTag, frozenset[Tag]] | None:
    """Project, version, build and tags; None if the name is not a wheel's or has too many tags."""
    tags = file.removesuffix(".whl").rsplit("-", 3)[1:]
    if prod(part.count(".") + 1 for part in tags) > _MOST_TAGS:
        return None
    try:
        return parse_wheel_filename(file)
    except ValueError:  # besides InvalidWheelFilename: a number of more digits than Python reads
        return None
