"""A recipe of the tests' own, and a Ray cluster that the tests of one worker share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ray_nodes import RayNodes, ray_nodes
from tests.support.sweeps import RECIPE


@pytest.fixture
def x(recipes: Path) -> Path:
    """The recipe x, and the folder in which the user stands."""
    (recipes / "x.yaml").write_text(RECIPE)
    return recipes.parent


@pytest.fixture(scope="session")
def ray_cluster_nodes() -> Iterator[RayNodes]:
    with ray_nodes() as found:
        yield found
