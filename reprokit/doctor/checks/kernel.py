"""The kernel: its release, and what engines need of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import info, warning

_SCRIPT = """
uname -r | say release
uname -m | say machine
grep -w overlay "$ROOT/proc/filesystems" 2>/dev/null | say overlay
cat "$ROOT/proc/filesystems" 2>/dev/null | head -n 1 | say known
modinfo overlay 2>/dev/null | head -n 1 | say overlay
"""
_OLDEST = (4, 18)  # overlay2 on all file systems, and what glibc of current bases needs


def find(host: Examined) -> Iterator[Finding]:
    found = host.ask(_SCRIPT)
    release = found.one("release")
    subject = f"host.kernel={release or '?'}"
    yield info("kernel", subject, found.one("machine"))
    number = re.match(r"(\d{1,4})\.(\d{1,4})", release)
    if number and (int(number[1]), int(number[2])) < _OLDEST:
        reason = "current base images and engines need Linux 4.18 or later"
        yield warning("kernel.version", subject, reason, "install a later kernel of the distribution, and reboot")
    if found.one("known") and not found.one("overlay"):
        reason = "the kernel has no overlay file system, so engines keep complete copies of layers"
        yield warning("kernel.overlay", subject, reason, "`sudo modprobe overlay`, or another kernel")
