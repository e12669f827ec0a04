"""Versions are resolved again where the facts forbid what was resolved."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from reprokit.compat.model import Stack
from reprokit.compat.pins import resolved_wheels
from reprokit.supply.kinds.wheels.uv import Unsatisfied
from reprokit.supply.kinds.wheels.within_facts import within_facts

INDEX = {"matplotlib": ["3.7.1", "3.9.2"], "numpy": ["1.26.4", "2.4.6"], "pandas": ["1.5.3"]}


def newest(requirements: Sequence[str], constraints: Sequence[str]) -> dict[str, str]:
    """The newest version of each requirement within the constraints, as uv takes it."""
    found = {}
    for project in (Requirement(text).name for text in requirements):
        limits = [r.specifier for text in (*requirements, *constraints) if (r := Requirement(text)).name == project]
        within = [v for v in INDEX[project] if all(limit.contains(v) for limit in limits)]
        if not within:
            raise Unsatisfied(f"no {project}")
        found[project] = max(within, key=Version)
    return found


@pytest.mark.parametrize(
    ("requirements", "expected", "asked"),
    [
        (["matplotlib==3.7.1", "numpy"], {"matplotlib": "3.7.1", "numpy": "1.26.4"}, 2),
        (["matplotlib<3.8", "numpy>=2"], {"matplotlib": "3.7.1", "numpy": "2.4.6"}, 3),  # neither bound can be met
        (["matplotlib", "numpy"], {"matplotlib": "3.9.2", "numpy": "2.4.6"}, 1),
        (["matplotlib==3.7.1", "numpy==2.4.6"], {"matplotlib": "3.7.1", "numpy": "2.4.6"}, 1),
        (["matplotlib==3.7.1", "pandas", "numpy"], {"matplotlib": "3.7.1", "pandas": "1.5.3", "numpy": "1.26.4"}, 2),
    ],
)
def test_versions_within_the_facts(requirements: list[str], expected: dict[str, str], asked: int) -> None:
    calls: list[Sequence[str]] = []
    said: list[str] = []

    def resolve(constraints: Sequence[str]) -> dict[str, str]:
        calls.append(constraints)
        return newest(requirements, constraints)

    def stack(versions: dict[str, str]) -> Stack:
        return Stack({"python": "3.11"}, resolved=resolved_wheels(versions.items(), ""))

    assert within_facts(resolve, stack, requirements, said.append) == expected
    assert len(calls) == asked
    assert bool(said) == (expected["numpy"] == "1.26.4")
    assert all(line.startswith("numpy<2.0 is required too: ") for line in said)
