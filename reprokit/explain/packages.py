"""The packages for what a log says is missing.

Names come from reprokit's own table, never from the log: whoever writes the log, such as a setup.py, chooses among
known packages at most.
"""

from __future__ import annotations

from reprokit.compat.distributions import bundled_distributions

_PARTS = ("header", "library", "loaded", "program", "package")


def packages(values: dict[str, str]) -> dict[str, str]:
    """`distribution` of PyPI for a captured `module`, `apt` for a captured header, library or program; if known."""
    found: dict[str, str] = {}
    known = bundled_distributions()
    if module := values.get("module"):
        project = known.of_module(module) or known.of_module(module.partition(".")[0])
        found |= {"distribution": project} if project else {}
    for name in _PARTS:
        if apt := known.of_part(values.get(name, "")):
            found["apt"] = apt
    return found
