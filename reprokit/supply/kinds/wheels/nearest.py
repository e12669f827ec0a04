"""The versions nearest to one that does not exist."""

from __future__ import annotations

import bisect

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version


def nearest_versions(requirement: str, versions: list[str], count: int = 4) -> list[str]:
    """Up to `count` of `versions`, those around the one that `requirement` pins; the newest where it pins none."""
    known = sorted({v for text in versions if (v := _version(text))})
    try:
        pinned = [v for s in Requirement(requirement).specifier if (v := _version(s.version))]
    except InvalidRequirement:
        pinned = []
    if not pinned:
        return [str(v) for v in known[-count:]]
    place = bisect.bisect(known, pinned[0])
    start = max(0, min(place - count // 2, len(known) - count))
    return [str(v) for v in known[start : start + count]]


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
