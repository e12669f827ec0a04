"""Files of requirements beside a recipe, on which their parsers would work for hours."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.supply.kinds.wheels.pip import run_limited

pytestmark = pytest.mark.long

Run = Callable[..., str]
MOST = (1 << 20) - 100
RECIPE = """\
name: x
paper: {{title: T, venue: V, year: 2020, licence: MIT}}
variants:
  cpu: {{base: "debian:12", pins: {{python: "3.11"}}, blocks: [python, wheels], wheels: [{entry}]}}
"""
DOUBLED = "".join(f"g{n} = [{{include-group = 'g{n + 1}'}}, {{include-group = 'g{n + 1}'}}]\n" for n in range(40))
CHAIN = "".join(f"g{n} = [{{include-group = 'g{n + 1}'}}]\n" for n in range(9000))
GROUPS = "{file: pyproject.toml, groups: [g0]}"


def a_recipe(folder: Path, name: str, text: str, entry: str = "") -> None:
    (folder / "recipes").mkdir(exist_ok=True)
    (folder / "recipes" / name).write_text(text)
    (folder / "recipes" / "x.yaml").write_text(RECIPE.format(entry=entry or f"{{file: {name}}}"))


@pytest.mark.parametrize("unit", [" ", "a ", "a[", "a (", "-- ", "a\\\n", "a==1\n", "-e .\n", "-r x\n"])
def test_lines_of_requirements(run: Run, tmp_path: Path, unit: str) -> None:
    a_recipe(tmp_path, "r.txt", unit * (MOST // len(unit)))
    assert run("render", "x", code=2).startswith("error: ")


def test_a_line_with_many_checksums_is_read(run: Run, tmp_path: Path) -> None:
    checksums = "".join(f" \\\n    --hash=sha256:{n:064x}" for n in range(300))
    a_recipe(tmp_path, "r.txt", f"numpy==1.26.4{checksums}\n")
    assert "FROM" in run("render", "x")


@pytest.mark.parametrize("form", ["{} = 1", "[{}]", "a = {{{} = 1}}"])
def test_keys_of_a_pyproject(run: Run, tmp_path: Path, form: str) -> None:
    a_recipe(tmp_path, "pyproject.toml", form.format("a." * (MOST // 2) + "a"))
    assert run("render", "x", code=2).startswith("error: ")


def test_groups_that_include_each_other(run: Run, tmp_path: Path) -> None:
    a_recipe(tmp_path, "pyproject.toml", f"[dependency-groups]\n{CHAIN}g9000 = []\n", GROUPS)
    assert "nested too deeply" in run("render", "x", code=2)
    a_recipe(tmp_path, "pyproject.toml", f"[dependency-groups]\n{DOUBLED}g40 = ['numpy==1.26.4']\n", GROUPS)
    assert "FROM" in run("render", "x")


def test_an_extra_that_is_no_requirement(run: Run, tmp_path: Path) -> None:
    text = "[project]\nname = 'foo'\n[project.optional-dependencies]\na = ['foo[']\n"
    a_recipe(tmp_path, "pyproject.toml", text, "{file: pyproject.toml, extras: [a]}")
    assert "foo[" in run("render", "x", code=2)


@pytest.mark.parametrize("stream", ["1", "2"])
def test_what_pip_and_uv_print_is_limited(stream: str) -> None:
    def printed(words: str) -> str:
        done = run_limited(["sh", "-c", f"{words} >&{stream}"], os.environ, "/")
        return done.stdout + done.stderr

    assert printed("yes | head -n 2") == "y\ny\n"
    with pytest.raises(SourceError, match="an index lets sh print more than 64 MiB"):
        printed("yes")
