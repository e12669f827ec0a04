"""Recipes and locks that grow, and the limits themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.untrusted import limits
from tests.support.bombs import refused

pytestmark = pytest.mark.long

Run = Callable[..., str]


def a_recipe(folder: Path, text: str) -> None:
    (folder / "recipes").mkdir(exist_ok=True)
    (folder / "recipes" / "x.yaml").write_text(text)


# A verb with an error that nobody expected.
BUG = """
from reprokit import cli
from reprokit.recipe import schema
schema.schema = lambda: 1 / 0
sys.argv = ["reprokit", "schema"]
cli.main()
"""


def test_a_bug_is_seen(run: Run) -> None:
    with pytest.raises(AssertionError, match=r"ZeroDivisionError: .*\(a bug in reprokit\)"):
        run(python=BUG, code=1)


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


HEAD = "name: x\npaper: {title: T, venue: V, year: 2020, licence: MIT}\nvariants:\n  cpu:\n    base: debian:12\n"


@pytest.mark.parametrize("value", ['!!int ""', '!!int "-"', '!!float ""', "!!bool maybe"])
def test_a_value_that_is_not_of_its_tag(run: Run, tmp_path: Path, value: str) -> None:
    a_recipe(tmp_path, f"{HEAD}    historic: {value}\n")
    assert "x.yaml:6" in run("check", "x", code=2)
    a_recipe(tmp_path, f"{HEAD}    historic: !!bool false\n")
    run("check", "x")


def test_variants_that_multiply_what_they_extend(run: Run, tmp_path: Path) -> None:
    def recipe(count: int) -> str:
        packages = ", ".join(["aa"] * 50_000)
        return f"{HEAD}    apt: [{packages}]\n" + "".join(f"  v{n}: {{extends: cpu}}\n" for n in range(count))

    a_recipe(tmp_path, recipe(10_000))
    refused(run("show", "x", code=2), limits.VALUES)
    a_recipe(tmp_path, recipe(2))
    run("show", "x")


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "".join(f"    k{n}: 1\n" for n in range(80_000)),
        f"{HEAD}claims: [{'{},' * 140_000}]\n",
        HEAD + "    mounts:\n" + "".join(f"    - {{source: a, target: /b{n}}}\n" for n in range(30_000)),
        HEAD + "    files:\n" + "".join(f"    - {{name: a{n}, urls: ['http://a'], path: /b}}\n" for n in range(20_000)),
        HEAD + "".join(f"  v{n}: {{extends: v{n + 1}}}\n" for n in range(20_000)),
        f'{HEAD}    wheels: ["x; {"(" * 300_000}"]\n',
        f"{HEAD}    wheels: [\"x; {'(' * 400}os_name=='a'{')' * 400}\"]\n",
        f'{HEAD}    wheels: ["x {",".join(f">={n}" for n in range(100_000))}"]\n',
    ],
    ids=["fields", "faults", "mounts", "files", "extends", "parentheses", "marker", "specifiers"],
)
def test_a_recipe_that_takes_long_to_judge(run: Run, tmp_path: Path, text: str) -> None:
    a_recipe(tmp_path, text)
    assert run("show", "x", code=2).startswith("error: ")
    a_recipe(tmp_path, f"{HEAD}    wheels: [\"x>=1,<2; (os_name=='a')\"]\n")
    run("show", "x")
