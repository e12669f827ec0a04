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

    Those of `pins` never change for them. `ask` resolves some beside pins, or raises SourceError. Where a group does
    not fit, its halves are tried.
    """
    if not projects:
        return []
    try:
        pins |= ask(pins, projects)
    except SourceError:
        if len(projects) == 1:
            return list(projects)
        half = len(projects) // 2
        return add_optional(pins, projects[:half], ask) + add_optional(pins, projects[half:], ask)
    return []


def present(project: str, pins: Mapping[str, str]) -> bool:
    """Whether pins have the project, or another one with the same module."""
    known = bundled_distributions()
    same = {project}
    for module, others in known.alternatives.items():
        every = {known.of_module(module) or module, *others}
        same |= every if project in every else set()
    return not same.isdisjoint(pins)


def ahead(pins: Mapping[str, str]) -> list[tuple[str, str]]:
    """The projects with a newer companion, and its version."""
    return [
        (project, pins[needed])
        for project, companions in bundled_distributions().companions.items()
        for needed in companions
        if project in pins and needed in pins and Version(pins[needed]) > Version(pins[project])
    ]
