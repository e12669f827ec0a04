"""Every bundled recipe: its variants can work, and the versions that its authors published clash."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.model import Stack
from reprokit.compat.solve import solve
from reprokit.compat.stack import stack_of
from reprokit.image.lock.fit import resolved_versions
from reprokit.image.lock.read import variant_lock
from reprokit.recipe.find import Target, recipe_names, targets

ALL = [target for name in recipe_names() for target in targets(name)]
# torch 1.8.1 brings NumPy, and the paper's other packages need an older one.
REPLACED = {"turbotransformers:cpu": {"numpy"}}


def errors(stack: Stack) -> list[str]:
    findings = evaluate(bundled(), stack)
    return [f"{' with '.join(f.subjects)}: {f.reason}" for f in findings if f.severity == "error"]


@pytest.mark.parametrize("target", [t for t in ALL if not t.variant.historic], ids=lambda t: t.label)
def test_a_variant_fits_together_on_every_gpu_that_it_names(target: Target) -> None:
    assert errors(stack_of(target.variant, resolved=resolved_versions(target))) == []
    assert (target.variant.requires.gpu == "none") == (not target.variant.requires.compute_capability)
    if lock := variant_lock(target):
        # A block that replaces a wheel of an earlier one leaves a mark in the layer with the time of the build.
        names = Counter(wheel.name for wheel in lock.wheels if not wheel.build_only)
        assert {name for name, count in names.items() if count > 1} == REPLACED.get(target.label, set())


@pytest.mark.parametrize("target", [t for t in ALL if t.variant.historic], ids=lambda t: t.label)
@pytest.mark.slow
def test_what_was_published_clashes_and_can_be_solved(target: Target) -> None:
    assert target.variant_name == "as-published"
    stack = stack_of(target.variant, resolved=resolved_versions(target))
    assert errors(stack)
    stack = stack_of(target.variant)
    solution = solve(bundled(), stack)
    assert solution.pins is not None and solution.changes
    assert errors(replace(stack, pins=solution.pins)) == []
