"""Bind mounts, and the container that the user may be logged in to."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from reprokit.errors import UsageError

# Engines mount these three into every container, from a folder of their own whose name is the container's id.
_ENGINE_FILES = {"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"}


@dataclass(frozen=True)
class BindMount:
    """A host folder or file (absolute) at a path in the container."""

    source: str
    target: str
    read_only: bool = False


def require_source(mount: BindMount) -> None:
    """Raises UsageError if the source is missing, which an engine would create, is behind a link or not readable."""
    source = Path(mount.source)
    try:
        exists = source.exists()
    except OSError as error:  # another user's folder, or too long a name
        raise UsageError(
            f"cannot mount {mount.source} at {mount.target}: {error.strerror}", hint="mount a folder that you can read"
        ) from None
    if not exists:
        raise UsageError(
            f"nothing to mount at {mount.target}: there is no {mount.source}",
            hint=f"mkdir -p {shlex.quote(mount.source)}",
        )
    if source.resolve() != source:
        raise UsageError(
            f"{mount.source}, mounted at {mount.target}, is behind a link", hint=f"mount {source.resolve()} itself"
        )


def mountinfo() -> str:
    """This process's /proc/self/mountinfo, "" if there is none."""
    try:
        return Path("/proc/self/mountinfo").read_text()
    except OSError:
        return ""


def own_container(mountinfo: str) -> str | None:
    """The id of the container that a login is in, from its /proc/self/mountinfo; None outside one.

    /.dockerenv and the cgroup's name are no proof: file systems made from images have the former, and the latter is
    `/` with cgroup namespaces.
    """
    for line in mountinfo.splitlines():
        fields = line.split()
        if len(fields) > 4 and fields[4] in _ENGINE_FILES:
            match = re.search(r"containers/([0-9a-f]{64})/", fields[3])
            if match:
                return match[1]
    return None
