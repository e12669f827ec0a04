"""Recipes, their locks and the files of requirements beside them that grow."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.supply.kinds.wheels.pip import run_limited
from reprokit.untrusted import limits
from tests.support.bombs import refused

Run = Callable[..., str]
HEAD = "name: x\npaper: {title: T, venue: V, year: 2020, licence: MIT}\nvariants:\n  cpu:\n    base: debian:12\n"
WHEELS = HEAD + "    pins: {python: '3.11'}\n    blocks: [python, wheels]\n    wheels: "
MOST = (1 << 20) - 100


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    (tmp_path / "recipes").mkdir()
    return tmp_path / "recipes"


def test_every_limit_has_a_name_of_its_own() -> None:
    names = {name: value for name, value in vars(limits).items() if isinstance(value, limits.Limit)}
    assert names and all(limit.name == name for name, limit in names.items())


@pytest.mark.long
def test_numbers_whose_time_grows_with_their_square(run: Run, recipes: Path) -> None:
    """YAML 1.1 has integers in base 60."""
    for number in ("1" + ":1" * 400_000, "1" + ":1" * 400_000 + ".5", "0x" + "f" * 900_000, "9" * 900_000):
        (recipes / "x.yaml").write_text(f"name: x\nyear: {number}\n")
        assert "a number with" in run("check", "x", code=2)
    for value in ('!!int ""', '!!int "-"', '!!float ""', "!!bool maybe"):  # not of their tags
        (recipes / "x.yaml").write_text(f"{HEAD}    historic: {value}\n")
        assert "x.yaml:6" in run("check", "x", code=2)
    (recipes / "x.yaml").write_text(f"{HEAD}    historic: !!bool false\n")
    run("check", "x")


@pytest.mark.long
@pytest.mark.parametrize("value", ["[]", "{}", "{a: b}", "b", "0"])
def test_a_lock_of_many_values(run: Run, recipes: Path, value: str) -> None:
    (recipes / "x.yaml").write_text(HEAD)
    lock = recipes / "x.lock.yaml"
    lock.write_text("recipe: x\nvariants: [" + f"{value}," * 1_500_000 + "]\n")
    refused(run("fetch", "x", code=2), limits.VALUES)
    lock.write_text("recipe: x\nvariants: [" + f"{value}," * 60_000 + "]\n")
    run("fetch", "x", code=2)


@pytest.mark.long
def test_variants_that_multiply_what_they_extend(run: Run, recipes: Path) -> None:
    def show(count: int, code: int = 0) -> str:
        packages, variants = ", ".join(["aa"] * 50_000), "".join(f"  v{n}: {{extends: cpu}}\n" for n in range(count))
        (recipes / "x.yaml").write_text(f"{HEAD}    apt: [{packages}]\n{variants}")
        return run("show", "x", code=code)

    refused(show(10_000, code=2), limits.VALUES)
    show(2)


SAME_PATH = "".join(f"    - {{name: a{n}, urls: ['http://a'], path: /b}}\n" for n in range(20_000))
SLOW = {
    "fields": HEAD + "".join(f"    k{n}: 1\n" for n in range(80_000)),
    "faults": f"{HEAD}claims: [{'{},' * 140_000}]\n",
    "mounts": HEAD + "    mounts:\n" + "".join(f"    - {{source: a, target: /b{n}}}\n" for n in range(30_000)),
    "files": f"{HEAD}    files:\n{SAME_PATH}",
    "extends": HEAD + "".join(f"  v{n}: {{extends: v{n + 1}}}\n" for n in range(20_000)),
    "parentheses": f'{HEAD}    wheels: ["x; {"(" * 300_000}"]\n',
    "marker": f"{HEAD}    wheels: [\"x; {'(' * 400}os_name=='a'{')' * 400}\"]\n",
    "specifiers": f'{HEAD}    wheels: ["x {",".join(f">={n}" for n in range(100_000))}"]\n',
}


@pytest.mark.long
@pytest.mark.parametrize("name", SLOW)
def test_a_recipe_that_takes_long_to_judge(run: Run, recipes: Path, name: str) -> None:
    (recipes / "x.yaml").write_text(SLOW[name])
    assert run("show", "x", code=2).startswith("error: ")
    (recipes / "x.yaml").write_text(f"{HEAD}    wheels: [\"x>=1,<2; (os_name=='a')\"]\n")
    run("show", "x")


# --- Files of requirements

GROUPS = "{file: pyproject.toml, groups: [g0]}"
CHAIN = "".join(f"g{n} = [{{include-group = 'g{n + 1}'}}]\n" for n in range(9000))
DOUBLED = "".join(f"g{n} = [{{include-group = 'g{n + 1}'}}, {{include-group = 'g{n + 1}'}}]\n" for n in range(40))
CHECKSUMS = "".join(f" \\\n    --hash=sha256:{n:064x}" for n in range(300))
EXTRA = "[project]\nname = 'foo'\n[project.optional-dependencies]\na = ['foo[']\n"
PROJECT = "{file: pyproject.toml}"
# Entry of the recipe; start, unit and end of the file, whose units make a megabyte; words of the error.
FILES = [
    *(("{file: r.txt}", "", unit, "", "error: ")
      for unit in (" ", "a ", "a[", "a (", "-- ", "a\\\n", "a==1\n", "-e .\n", "-r x\n")),
    (PROJECT, "", "a.", "a = 1", "error: "),
    (PROJECT, "[", "a.", "a]", "error: "),
    (PROJECT, "a = {", "a.", "a = 1}", "error: "),
    (GROUPS, f"[dependency-groups]\n{CHAIN}g9000 = []\n", "", "", "nested too deeply"),
    (GROUPS, f"[dependency-groups]\n{DOUBLED}g40 = ['numpy==1.26.4']\n", "", "", ""),
    ("{file: pyproject.toml, extras: [a]}", EXTRA, "", "", "foo["),
    ("{file: r.txt}", f"numpy==1.26.4{CHECKSUMS}\n", "", "", ""),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("entry", "start", "unit", "end", "words"), FILES, ids=range(len(FILES)))
def test_a_file_of_requirements(
    run: Run, recipes: Path, entry: str, start: str, unit: str, end: str, words: str
) -> None:
    text = start + unit * (MOST // len(unit) if unit else 0) + end
    (recipes / ("r.txt" if "r.txt" in entry else "pyproject.toml")).write_text(text)
    (recipes / "x.yaml").write_text(f"{WHEELS}[{entry}]\n")
    assert (words or "FROM") in run("render", "x", code=2 if words else 0)


@pytest.mark.long
@pytest.mark.parametrize("stream", ["1", "2"])
def test_what_pip_and_uv_print_is_limited(stream: str) -> None:
    def printed(words: str) -> str:
        done = run_limited(["sh", "-c", f"{words} >&{stream}"], os.environ, "/")
        return done.stdout + done.stderr

    assert printed("yes | head -n 2") == "y\ny\n"
    with pytest.raises(SourceError, match="an index makes sh print more than 64 MiB"):
        printed("yes")
