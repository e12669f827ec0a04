"""Whether the engine sees the user's folders: it may run outside the user's own container, or on another machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from reprokit.container.spec import Mount
from reprokit.engine import Engine
from reprokit.errors import EngineError

# Engines mount these three into every container from their own folder of it, which holds its id.
_OWN_FILES = {"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"}


def reachable(engine: Engine, mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """`mounts` with sources as the engine names them. Raises EngineError where it cannot see a source."""
    if not engine.host.name and re.match(r"(tcp|ssh|https?)://(?!localhost\b|127\.|\[::1\])", engine.url):
        raise EngineError(
            "the engine runs on another machine and cannot mount folders of this one",
            engine.url,
            "run reprokit there, or unset DOCKER_HOST",
        )
    own = own_container(engine.host.mountinfo())
    # An engine that does not know this container runs inside it, and sees what the user sees.
    outside = engine.container(own) if own else None
    if outside is None:
        return tuple(mounts)
    return tuple(translate(mount, outside.get("Mounts") or []) for mount in mounts)


def own_container(mountinfo: str) -> str | None:
    """The id of the container that a login is in, from its /proc/self/mountinfo; None outside one.

    /.dockerenv and the cgroup's name are no proof: file systems made from images have the former, and the
    latter is `/` with cgroup namespaces.
    """
    for line in mountinfo.splitlines():
        fields = line.split()
        if len(fields) > 4 and fields[4] in _OWN_FILES:
            match = re.search(r"containers/([0-9a-f]{64})/", fields[3])
            if match:
                return match[1]
    return None


def translate(mount: Mount, own_mounts: Iterable[Mapping[str, Any]]) -> Mount:
    """A mount whose source is a path of our container, by the host's name for it. Raises EngineError."""
    source = PurePosixPath(mount.source)
    deepest = max(
        (m for m in own_mounts if source.is_relative_to(m["Destination"])),
        key=lambda m: len(m["Destination"]),
        default=None,
    )
    if deepest is None:
        raise EngineError(
            f"{mount.source} is in the container that you are logged in to, and the engine outside cannot mount it at "
            f"{mount.target}",
            hint="use a folder that the machine mounts into that container; REPROKIT_HOME moves workspaces to one",
        )
    return replace(mount, source=str(PurePosixPath(deepest["Source"]) / source.relative_to(deepest["Destination"])))


def mountinfo() -> str:
    """This process's own."""
    try:
        return Path("/proc/self/mountinfo").read_text()
    except OSError:
        return ""
