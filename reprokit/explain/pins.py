"""The nearest pins for what a log names, from the compat facts."""

from __future__ import annotations

import re

from reprokit.compat.facts import bundled
from reprokit.compat.version import key


def pins(values: dict[str, str]) -> dict[str, str]:
    """`oldest_cuda` for a captured `arch` such as 86, 8.6 or sm_86; nothing where it is unknown."""
    digits = re.search(r"(\d+)\.?(\d)\b", values.get("arch", ""))
    if digits is None:
        return {}
    wanted = int(digits[1] + digits[2])
    known = [version for version, toolkit in bundled().cuda.toolkits.items() if wanted in toolkit.sm]
    return {"oldest_cuda": min(known, key=key)} if known else {}
