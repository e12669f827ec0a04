"""Versions of what no requirement states: of optional parts of the code, and of companions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from packaging.version import Version

from reprokit.compat.distributions import bundled_distributions
from reprokit.errors import SourceError


def add_optional(
    pins: dict[str, str],
    projects: Sequence[str],
    ask: Callable[[Mapping[str, str], Sequence[str]], Mapping[str, str]],
) -> list[str]:
    """Add `projects` to `pins`, and return those that do not fit.

    Those of `pins` never change for them. `ask` resolves some beside pins, or raises SourceError. All are tried at
    once, and only where that fails one by one.
    """
    left_out: list[str] = []
    for group in [projects, *([one] for one in projects if len(projects) > 1)]:
        try:
            pins |= ask(pins, group) if group else {}
        except SourceError:
            left_out += group if len(group) == 1 else []
            continue
        if len(group) == len(projects):
            break
    return left_out


def ahead(pins: Mapping[str, str]) -> list[tuple[str, str]]:
    """The projects with a newer companion, and its version."""
    return [
        (project, pins[needed])
        for project, companions in bundled_distributions().companions.items()
        for needed in companions
        if project in pins and needed in pins and Version(pins[needed]) > Version(pins[project])
    ]
