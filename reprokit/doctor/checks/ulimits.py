"""The limits of the login's processes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import info, warning

_SCRIPT = 'cat "${ROOT:-}/proc/self/limits" 2>/dev/null | say limit\n'
# As in /proc/self/limits: rule, least, and what fails below that.
_LEAST = {
    "Max open files": ("files", 1024, "downloads and parallel builds open many files"),
    "Max processes": ("processes", 1024, "parallel builds start many processes"),
    "Max file size": ("file_size", 64 << 30, "layers, bundles and data sets are large files"),
    "Max address space": ("address_space", 64 << 30, "CUDA and Python reserve large ranges of addresses"),
}


def find(host: Examined) -> Iterator[Finding]:
    shown = []
    for line in host.ask(_SCRIPT).all("limit"):
        found = re.match(r"(Max [a-z ]+?) {2,}(\d{1,20}|unlimited) ", line)
        if not found or found[1] not in _LEAST:
            continue
        rule, least, why = _LEAST[found[1]]
        shown.append(f"{rule} {found[2]}")
        if found[2] != "unlimited" and int(found[2]) < least:
            remedy = f"raise it for this login: `ulimit -{'nufv'[list(_LEAST).index(found[1])]}`, or limits.conf(5)"
            yield warning(f"ulimits.{rule}", f"host.{rule}={found[2]}", f"a low limit: {why}", remedy)
    if shown:
        yield info("ulimits", f"host.ulimits={len(shown)}", ", ".join(shown))
