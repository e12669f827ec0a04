"""Free space and inodes if the engine keeps images, and where reprokit and programs write."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator

from reprokit import paths
from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined, NotAsked, text
from reprokit.doctor.findings import error, info, unknown, warning
from reprokit.formatting import binary_size
from reprokit.host.disk import ENGINE_HINT, STORE_HINT

_LITTLE = 10 << 30  # an image of CUDA with torch has about this size
_FULL = 64 << 20
_FEW_INODES = 10_000  # an image has some 10 000 files
_DF = """
folder={folder}
while [ ! -e "$folder" ] && [ "$folder" != / ]; do folder=$(dirname "$folder"); done
LC_ALL=C df -P -k "$folder" 2>/dev/null | tail -n +2 | say kilobytes
LC_ALL=C df -P -i "$folder" 2>/dev/null | tail -n +2 | say inodes
"""


def find(host: Examined) -> Iterator[Finding]:
    places = {} if host.node else {"store": str(paths.home()), "tmp": tempfile.gettempdir()}
    try:
        root = text(host.info().get("DockerRootDir"))
    except NotAsked:
        root = ""
    if root:
        places = {"engine": root, **places}
    for place, folder in places.items():
        yield from _about(host, place, folder)


def free_bytes(host: Examined, folder: str) -> int | None:
    """Bytes free to the login in a folder, None if unknown."""
    found = counts(host.ask(_DF.format(folder=shlex.quote(folder))).one("kilobytes"))
    return found[1] * 1024 if found else None


def _about(host: Examined, place: str, folder: str) -> Iterator[Finding]:
    found = host.ask(_DF.format(folder=shlex.quote(folder)))
    kilobytes, inodes = counts(found.one("kilobytes")), counts(found.one("inodes"))
    hint = (ENGINE_HINT if place == "engine" else STORE_HINT).format(amount="space")
    if kilobytes is None:
        yield unknown("disk", f"disk.{place}={folder}", "its free space cannot be read", f"look at it: `df {folder}`")
        return
    free = kilobytes[1] * 1024
    subject = f"disk.{place}={binary_size(free)} free"
    yield info("disk", subject, folder)
    if free < _FULL:
        yield error("disk.full", subject, f"the disk is full ({folder})", hint)
    elif free < _LITTLE and place == "engine":
        yield warning(
            "disk.little", subject, f"an image with CUDA and torch needs {binary_size(_LITTLE)} ({folder})", hint
        )
    # File systems without a fixed number of inodes report 0 of 0.
    if inodes and inodes[0] and inodes[1] < _FEW_INODES:
        reason = f"only {inodes[1]} more files can be made ({folder}): writes fail as on a full disk"
        yield warning("disk.inodes", subject, reason, hint)


def counts(line: str) -> tuple[int, int] | None:
    """The total and the free count in a line of df. A device's name may contain blanks."""
    found = re.search(r" (\d{1,18}) +-?\d+ +(-?\d{1,18}) +\d+% +/", line)
    return (int(found[1]), max(0, int(found[2]))) if found else None
