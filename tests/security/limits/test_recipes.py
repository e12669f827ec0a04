"""Recipes and locks that grow, and the limits themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.untrusted import limits
from tests.support.bombs import refused

Run = Callable[..., str]


def a_recipe(folder: Path, text: str) -> None:
    (folder / "recipes").mkdir(exist_ok=True)
    (folder / "recipes" / "x.yaml").write_text(text)


def test_numbers_whose_time_grows_with_their_square(run: Run, tmp_path: Path) -> None:
    """YAML 1.1 has integers in base 60."""
    for number in ("1" + ":1" * 400_000, "1" + ":1" * 400_000 + ".5", "0x" + "f" * 900_000, "9" * 900_000):
        a_recipe(tmp_path, f"name: x\nyear: {number}\n")
        assert "a number with" in run("check", "x", code=2)


@pytest.mark.parametrize("value", ["[]", "{}", "{a: b}", "b", "0"])
def test_a_lock_of_many_values(run: Run, tmp_path: Path, value: str) -> None:
    a_recipe(
        tmp_path,
        "name: x\npaper: {title: T, venue: V, year: 2020, licence: MIT}\nvariants: {cpu: {base: 'debian:12'}}\n",
    )
    lock = tmp_path / "recipes" / "x.lock.yaml"
    lock.write_text("recipe: x\nvariants: [" + f"{value}," * 1_500_000 + "]\n")
    refused(run("fetch", "x", code=2), limits.VALUES)
    lock.write_text("recipe: x\nvariants: [" + f"{value}," * 60_000 + "]\n")
    run("fetch", "x", code=2)


def test_every_limit_has_a_name_of_its_own() -> None:
    found = {name: value for name, value in vars(limits).items() if isinstance(value, limits.Limit)}
    assert found and all(limit.name == name for name, limit in found.items())
