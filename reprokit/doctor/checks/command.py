"""The command `reprokit` that a shell starts: another project of that name may come first."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import warning
from reprokit.installation import other_command


def find(host: Examined) -> Iterator[Finding]:
    if not host.node and (other := other_command()):
        remedy = f"uninstall that project, or put {sysconfig.get_path('scripts')} before it on PATH"
        reason = "the command `reprokit` that comes first on PATH belongs to another project"
        yield warning("command", f"command={other}", reason, remedy)
