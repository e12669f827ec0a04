"""BuildKit: there for `build --builder buildkit`, or not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import info

_SCRIPT = """
docker --version 2>/dev/null | say cli
docker buildx version 2>/dev/null | say buildx
"""


def find(host: Examined) -> Iterator[Finding]:
    if host.node:
        return  # nothing is built on a node
    found = host.ask(_SCRIPT)
    cli = re.search(r"version (\d{1,4})\.(\d{1,4})", found.one("cli"))
    if found.one("buildx"):
        yield info("builder", "buildkit=yes", found.one("buildx"))
    elif cli and (18, 9) <= (int(cli[1]), int(cli[2])) < (23, 0):
        yield info("builder", "buildkit=yes", f"of {found.one('cli')}")
    else:
        reason = "no Docker CLI on PATH can use BuildKit; builds use the classic builder"
        yield info("builder", "buildkit=no", reason)
