"""How much memory a machine has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def memory_bytes(meminfo: Path = MEMINFO, cgroup_limit: Path = _CGROUP_LIMIT) -> int | None:
    """This machine's memory in bytes, or a cgroup's limit if that is lower; None if unknown."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    try:
        limit = cgroup_limit.read_text(encoding="ascii").strip()
    except OSError:
        limit = ""
    return memory_of(lines, limit)


def memory_of(meminfo: Iterable[str], cgroup_limit: str) -> int | None:
    """As `memory_bytes`, from the lines of /proc/meminfo and the cgroup's limit ("" for none)."""
    match = next(filter(None, (re.match(r"MemTotal: +(\d{1,15}) kB", line) for line in meminfo)), None)
    if match is None:
        return None
    total = int(match[1]) * 1024
    return min(total, int(cgroup_limit)) if re.fullmatch(r"\d{1,18}", cgroup_limit) else total
