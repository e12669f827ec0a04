"""Every bundled recipe: what is offered can work, and what its authors published is shown to clash."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.solve.search import solve
from reprokit.compat.stack import stack_of
from reprokit.image.lock.fit import resolved_versions
from reprokit.image.lock.read import variant_lock
from reprokit.recipe.find import Target, recipe_names, targets

ALL = [target for name in recipe_names() for target in targets(name)]
CURRENT = [t for t in ALL if not t.variant.historic]
HISTORIC = [t for t in ALL if t.variant.historic]


def errors(target: Target) -> list[str]:
    found = evaluate(bundled(), stack_of(target.variant, resolved=resolved_versions(target)))
    return [f"{' with '.join(f.subjects)}: {f.reason}" for f in found if f.severity == "error"]


@pytest.mark.parametrize("target", CURRENT, ids=lambda t: t.label)
def test_a_variant_fits_together_on_every_gpu_that_it_names(target: Target) -> None:
    assert errors(target) == []
    assert (target.variant.requires.gpu == "none") == (not target.variant.requires.compute_capability)


@pytest.mark.parametrize("target", HISTORIC, ids=lambda t: t.label)
def test_what_was_published_clashes(target: Target) -> None:
    assert target.variant_name == "as-published"
    assert errors(target)


@pytest.mark.parametrize("target", HISTORIC, ids=lambda t: t.label)
@pytest.mark.slow
def test_what_was_published_can_be_solved(target: Target) -> None:
    stack = stack_of(target.variant)
    solution = solve(bundled(), stack)
    assert solution.pins is not None and solution.changes
    found = evaluate(bundled(), replace(stack, pins=solution.pins))
    assert not [finding for finding in found if finding.severity == "error"]


# torch 1.8.1 brings NumPy, and the paper's other packages need an older one.
REPLACED = {"turbotransformers:cpu": {"numpy"}}


@pytest.mark.parametrize("target", [t for t in CURRENT if variant_lock(t)], ids=lambda t: t.label)
def test_no_block_replaces_a_wheel_of_an_earlier_one(target: Target) -> None:
    """Its removal leaves a mark in the layer with the time of the build."""
    lock = variant_lock(target)
    assert lock
    names = Counter(wheel.name for wheel in lock.wheels if not wheel.build_only)
    assert {name for name, versions in names.items() if versions > 1} == REPLACED.get(target.label, set())
