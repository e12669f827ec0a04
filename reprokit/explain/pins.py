"""The nearest pins for what a log names, from the compat facts."""

from __future__ import annotations

import re

from reprokit.compat.facts import bundled
from reprokit.compat.version import key


def pins(values: dict[str, str]) -> dict[str, str]:
    """What follows from captured values, where it is known.

    `oldest_cuda` for an `arch` such as 86, 8.6 or sm_86; `driver_newest_cuda` for a driver's `driver_cuda`, 11040.
    """
    found = {}
    if number := int(values.get("driver_cuda", 0)):
        found["driver_newest_cuda"] = f"{number // 1000}.{number % 1000 // 10}"
    if digits := re.search(r"(\d+)\.?(\d)\b", values.get("arch", "")):
        wanted = int(digits[1] + digits[2])
        known = [version for version, toolkit in bundled().cuda.toolkits.items() if wanted in toolkit.sm]
        found |= {"oldest_cuda": min(known, key=key)} if known else {}
    return found
