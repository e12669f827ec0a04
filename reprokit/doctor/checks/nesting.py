"""Whether the login is in a container, in a virtual machine, or in WSL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined, NotAsked
from reprokit.doctor.findings import info, warning
from reprokit.host.mounts import own_container

_SCRIPT = """
for file in /.dockerenv /run/.containerenv; do [ -e "$ROOT$file" ] && echo "$file" | say marker; done
echo "${container-}" | say container
grep -E ' /etc/(hostname|hosts|resolv.conf) ' "$ROOT/proc/self/mountinfo" 2>/dev/null | say mount
cat "$ROOT/proc/sys/kernel/osrelease" 2>/dev/null | say kernel
grep -m 1 -ow hypervisor "$ROOT/proc/cpuinfo" 2>/dev/null | say hypervisor
cat "$ROOT/sys/class/dmi/id/sys_vendor" 2>/dev/null | say vendor
"""


def find(host: Examined) -> Iterator[Finding]:
    found = host.ask(_SCRIPT)
    inner = own_container("".join(f"{line}\n" for line in found.all("mount")))
    if re.search("microsoft|wsl", found.one("kernel"), re.IGNORECASE):
        reason = (
            "WSL: the GPU comes from the driver of Windows; install none in Linux. Keep files off /mnt/c, it is slow"
        )
        yield info("nesting", "host.inside=WSL", reason)
    elif found.one("hypervisor"):
        yield info("nesting", "host.inside=virtual machine", found.one("vendor"))
    # File systems made from images have the markers too, so that they alone are no proof.
    if not (inner or found.one("marker") or found.one("container")):
        return
    subject = f"host.inside=container {inner[:12]}" if inner else "host.inside=container"
    try:
        outer = bool(inner) and host.engine().container(inner or "") is not None
    except NotAsked:
        yield info("nesting", subject, "there are marks of a container")
        return
    if outer:
        reason = (
            "the engine runs outside: it mounts the paths of its own machine. reprokit translates folders that both "
            "share, and refuses others"
        )
        remedy = "keep workspaces and $REPROKIT_HOME in a folder that is mounted into this container"
        yield warning("nesting.engine", subject, reason, remedy)
    else:
        yield info("nesting", subject, "there are marks of a container, which the engine does not know")
