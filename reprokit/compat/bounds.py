"""Bounds on versions that a resolver may choose, each of which ends an error between resolved packages."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from reprokit.compat.evaluate import judge
from reprokit.compat.facts import Facts
from reprokit.compat.known import releases
from reprokit.compat.model import Finding, Stack
from reprokit.compat.rule import CompatRule
from reprokit.compat.version import key
from reprokit.compat.view import View
from reprokit.recipe.pin_names import NOT_ON_PYPI


def package_errors(facts: Facts, stack: Stack) -> list[tuple[CompatRule, Finding]]:
    """The errors that other versions of resolved packages may end: those between packages, or with Python."""
    return [(r, f) for r, f in judge(View(facts, stack)) if f.severity == "error" and _is_about_packages(f, stack)]


def _is_about_packages(finding: Finding, stack: Stack) -> bool:
    names = [subject.partition("=")[0] for subject in finding.subjects]
    packages = {name for name in (*stack.pins, *stack.resolved) if name not in NOT_ON_PYPI}
    return any(name in stack.resolved for name in names) and set(names) <= packages | {"python"}


def bounds(facts: Facts, stack: Stack, fixed: Collection[str]) -> Iterator[tuple[str, Finding]]:
    """Requirements such as `numpy<2.0`, each with the error that it ends; bounds from above come first.

    The packages in `fixed`, and the pins, keep their versions.
    """
    view = View(facts, stack)
    for rule, finding in package_errors(facts, stack):
        names = [subject.partition("=")[0] for subject in finding.subjects]
        free = [name for name in names if name in stack.resolved and name not in (*fixed, *stack.pins)]
        around = [(name, *_nearest(rule, finding, view, name)) for name in free]
        yield from ((f"{name.replace('_', '-')}<{below}", finding) for name, below, _ in around if below)
        yield from ((f"{name.replace('_', '-')}>={least}", finding) for name, _, least in around if least)


def _nearest(rule: CompatRule, finding: Finding, view: View, name: str) -> tuple[str, str]:
    """The oldest of the releases around the present one that have the error, and the next newer one without it.

    Each is empty if no older or newer release is without the error.
    """
    pin, known = view.pin(name), releases(view.facts, name)
    present = key(pin.versions[0] if pin and pin.versions else "0")
    older, newer = [v for v in known if key(v) <= present], [v for v in known if key(v) > present]

    def fails(version: str) -> bool:
        found = judge(view.changed(name, version), [rule])
        return any(f.severity == "error" and _others(f, name) == _others(finding, name) for _, f in found)

    first = next((i for i, v in reversed(list(enumerate(older))) if not fails(v)), -1) + 1
    below = older[first] if 0 < first < len(older) else ""
    return below, next((v for v in newer if not fails(v)), "")


def _others(finding: Finding, name: str) -> set[str]:
    return {subject for subject in finding.subjects if subject.partition("=")[0] != name}
