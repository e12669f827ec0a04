"""Resolve wheels to versions that the facts permit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from packaging.requirements import Requirement

from reprokit.compat.evaluate import bounds, package_errors
from reprokit.compat.facts import bundled
from reprokit.compat.model import Stack
from reprokit.compat.stack import of_project, resolved_wheels, stack_of
from reprokit.display import notify
from reprokit.errors import SourceError
from reprokit.recipe.fields import exact_version
from reprokit.recipe.model import Variant
from reprokit.supply.kinds.wheels.platform import WheelRequest
from reprokit.supply.lock.model import Distribution

T = TypeVar("T")


def within_facts(resolve: Callable[[Sequence[str]], T], stack: Callable[[T], Stack], requirements: Sequence[str]) -> T:
    """What `resolve` finds with constraints that avoid the errors between its packages, as far as there is such.

    Packages with an exact version in `requirements` keep it. Every constraint that counts leaves fewer errors.
    """
    facts, fixed = bundled(), _exact(requirements)
    constraints: list[str] = []
    found = resolve(constraints)
    while True:
        now = stack(found)
        for bound, finding in bounds(facts, now, fixed):
            try:
                other = resolve([*constraints, bound])
            except SourceError:  # also of an index that only this bound needs
                continue
            if len(package_errors(facts, stack(other))) < len(package_errors(facts, now)):
                notify(f"{bound} is required too: {finding.reason}")
                constraints.append(bound)
                found = other
                break
        else:
            return found


def wheels_within_facts(
    variant: Variant, request: WheelRequest, resolve: Callable[[WheelRequest], tuple[Distribution, ...]]
) -> tuple[Distribution, ...]:
    """What `resolve` finds for a request, within the facts on the variant's pins and wheels."""

    def bounded(constraints: Sequence[str]) -> tuple[Distribution, ...]:
        return resolve(replace(request, constraints=[*request.constraints, *constraints]))

    def stack(found: tuple[Distribution, ...]) -> Stack:
        return stack_of(variant, resolved=resolved_wheels(installed(found), ""))

    return within_facts(bounded, stack, request.requirements)


def installed(wheels: Sequence[Distribution]) -> list[tuple[str, str]]:
    """Project and version of the wheels that an image gets. The facts are not about what is built from sdists."""
    return [(w.name, w.version) for w in wheels if not w.build_only and w.file.endswith(".whl")]


def _exact(requirements: Sequence[str]) -> Collection[str]:
    read = map(Requirement, requirements)
    return {name for each in read if exact_version(each) and (name := of_project(each.name))}
