"""Names of wheels, which strangers' indexes choose."""

from __future__ import annotations

from math import prod

from packaging.tags import Tag
from packaging.utils import BuildTag, NormalizedName, parse_wheel_filename
from packaging.version import Version

# A name with several Pythons, ABIs and platforms stands for all their combinations. Real ones have up to some dozens.
_MOST_TAGS = 1000


def parsed_wheel(file: str) -> tuple[NormalizedName, Version, BuildTag, frozenset[Tag]] | None:
    """Project, version, build and tags; None for what is no name of a wheel, and for one of too many tags."""
    tags = file.removesuffix(".whl").rsplit("-", 3)[1:]
    if prod(part.count(".") + 1 for part in tags) > _MOST_TAGS:
        return None
    try:
        return parse_wheel_filename(file)
    except ValueError:  # besides InvalidWheelFilename: a number of more digits than Python reads
        return None
