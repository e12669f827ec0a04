"""The clocks of the machine, of its engine and of a node."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined, NotAsked, text
from reprokit.doctor.findings import info, warning

_MOST_S = 5.0
_SCRIPT = """
date +%s | say now
LC_ALL=C timedatectl show -p NTPSynchronized --value 2>/dev/null | say synchronised
"""
_REMEDY = "set it: `sudo timedatectl set-ntp true`"


def find(host: Examined) -> Iterator[Finding]:
    before = time.time()
    found = host.ask(_SCRIPT)
    there = found.number("now")
    if host.node and there is not None:
        ahead = there - before if there < before else max(0.0, there - time.time())
        yield from _judged("clock", f"the clock of {host.node}", ahead)
    synchronised = found.one("synchronised")
    yield info("clock", f"host.ntp={synchronised or 'unknown'}", "whether the clock is set by time servers")
    try:
        engine_time = text(host.info().get("SystemTime"))
    except NotAsked:
        return
    # Python 3.10 reads neither nanoseconds nor Z.
    written = re.fullmatch(r"(.{19})(?:\.\d+)?(Z|[+-]\d\d:\d\d)", engine_time)
    if written and not host.node:
        zone = written[2].replace("Z", "+00:00")  # otherwise that of the engine's machine
        engine = datetime.fromisoformat(written[1] + zone).timestamp()
        yield from _judged("clock.engine", "the engine's clock", engine - time.time())


def _judged(rule: str, whose: str, ahead_s: float) -> Iterator[Finding]:
    if abs(ahead_s) > _MOST_S:
        how = "ahead" if ahead_s > 0 else "behind"
        reason = f"{whose} is {abs(ahead_s):.0f} s {how}: TLS, make and the order of results go wrong"
        yield warning(rule, f"host.clock={ahead_s:+.0f} s", reason, _REMEDY)
