"""Pins that do not pass `check` are solved, with a line for each change."""

from __future__ import annotations

from packaging.requirements import Requirement

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.stack import stack_of, stated_wheels
from reprokit.importing.fit import Fit
from reprokit.importing.permitted import RecipeChange
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Variant

RECIPE = """\
name: tool
paper: {{title: T, venue: V, year: 2020, licence: none}}
variants:
  cuda:
    base: ubuntu:20.04
    pins:
      distro: "ubuntu:20.04"
      python: "3.8"
      cuda: "{cuda}" # Dockerfile:1
      gcc: "{gcc}"
"""


def errors(text: str) -> list[str]:
    variant = load_text(text, "tool.yaml", "tool").variants["cuda"]
    stack = stack_of(variant, resolved=stated_wheels(map(str, variant.wheels)))
    return [f.reason for f in evaluate(bundled(), stack) if f.severity == "error"]


def fitted(cuda: str, gcc: str, kept: tuple[str, ...] = ()) -> tuple[str, list[str]]:
    text = RECIPE.format(cuda=cuda, gcc=gcc)
    return Fit(bundled(), lambda variant, requirement: []).fitted(text, "tool", "cuda", kept)


def test_pins_that_pass_stay():
    assert fitted("11.4", "9") == (RECIPE.format(cuda="11.4", gcc="9"), [])


def test_pins_that_clash_change_least_and_the_error_is_named():
    assert errors(RECIPE.format(cuda="10.2", gcc="9"))
    text, (line,) = fitted("10.2", "9")
    assert not errors(text) and " -> " in line and "nvcc of CUDA" in line and "# Dockerfile:1" in text


def test_a_pin_that_was_just_set_stays():
    text, (line,) = fitted("10.2", "9", kept=("/variants/*/pins/cuda",))
    assert line.startswith("gcc: 9 -> ") and not errors(text)


def test_wheels_that_clash_change_as_pins_do():
    text = RECIPE.format(cuda="11.4", gcc="9").replace("3.8", "3.10")
    text += "    wheels: [matplotlib==3.7.1, numpy==2.0.2]\n"
    requested = []

    def versions(variant: Variant, requirement: Requirement) -> list[RecipeChange]:
        requested.append(str(requirement))
        return [RecipeChange("replace", "/variants/*/wheels/1", "numpy==1.24.4")]

    assert [line.partition(" (")[0] for line in errors(text)] == ["matplotlib before 3.8.4 was compiled with NumPy 1"]
    changed, lines = Fit(bundled(), versions).fitted(text, "tool", "cuda")
    assert requested == ["numpy==1.26.*"] and len(lines) == 1 and not errors(changed)
