"""A recipe of the tests' own, and a Ray cluster that the tests of one worker share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.ray_nodes import RayNodes, ray_nodes

RECIPE = """\
name: x
paper: {title: T, venue: V, year: 2024, licence: none}
variants:
  cpu: {base: "debian:12"}
  cuda: {base: "debian:12", requires: {gpu: required}}
benchmarks:
  spmm:
    command: 'echo "took ${THREADS:-1} ms"'
    matrix: {LAYOUT: [row, column]}
    parse: {values: [{pattern: 'took (?P<value>\\S+) ms', metric: spmm, unit: ms}]}
  kernel:
    command: kernel
    gpu: true
    repeat: 5
    variants: [cuda]
    parse: {format: records}
"""


@pytest.fixture
def x(recipes: Path) -> Path:
    """The recipe x, and the folder in which the user stands."""
    (recipes / "x.yaml").write_text(RECIPE)
    return recipes.parent


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    """`written(text)`: a sweep's file."""

    def write(text: str) -> Path:
        file = tmp_path / "s.yaml"
        file.write_text(text)
        return file

    return write


@pytest.fixture(scope="session")
def ray_cluster_nodes() -> Iterator[RayNodes]:
    with ray_nodes() as found:
        yield found
