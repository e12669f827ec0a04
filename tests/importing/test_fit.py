"""Pins that do not pass `check` are solved, with a line for each change."""

from __future__ import annotations

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.stack import stack_of
from reprokit.importing.fit import Fit
from reprokit.recipe.load import load_text

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
    return [f.reason for f in evaluate(bundled(), stack_of(variant)) if f.severity == "error"]


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
