"""Cgroups and user namespaces: what limits containers, and whose ids they have."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined, text, texts
from reprokit.doctor.findings import info, warning

_SCRIPT = """
cat "$ROOT/proc/sys/user/max_user_namespaces" 2>/dev/null | say most
cat "$ROOT/proc/sys/kernel/unprivileged_userns_clone" 2>/dev/null | say clone
cat "$ROOT/proc/sys/kernel/apparmor_restrict_unprivileged_userns" 2>/dev/null | say apparmor
command -v unshare >/dev/null && { unshare --user true 2>/dev/null && echo yes || echo no; } | say made
"""


def find(host: Examined) -> Iterator[Finding]:
    kernel = host.ask(_SCRIPT)
    settings = kernel.one("most") != "0" and kernel.one("clone") != "0" and kernel.one("apparmor") != "1"
    allowed = settings and kernel.one("made") != "no"
    can = "users may make user namespaces" if allowed else "users may not make user namespaces (a rootless engine does)"
    yield info("isolation", f"host.user_namespaces={'yes' if allowed else 'no'}", can)
    engine_info = host.info()
    options = texts(engine_info.get("SecurityOptions"))
    version = text(engine_info.get("CgroupVersion")) or "1"
    shifted = ", shifts user ids (userns-remap)" if any("name=userns" in option for option in options) else ""
    yield info(
        "isolation", f"engine.cgroup={version}", f"driver {text(engine_info.get('CgroupDriver')) or '?'}{shifted}"
    )
    if engine_info.get("MemoryLimit") is False:
        reason = "the engine cannot limit a container's memory, so one that takes too much takes the machine down"
        remedy = "boot with the memory cgroup (`cgroup_enable=memory` on the kernel's command line), or use cgroup v2"
        yield warning("isolation.memory", f"engine.cgroup={version}", reason, remedy)
    if not any("name=seccomp" in option for option in options):
        reason = "the engine runs containers without seccomp, so they may call more of the kernel"
        remedy = "use a kernel with CONFIG_SECCOMP, and remove `seccomp-profile` from /etc/docker/daemon.json"
        yield warning("isolation.seccomp", "engine.seccomp=none", reason, remedy)
