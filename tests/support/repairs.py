"""Recorded failures of a recipe, in place of its builds."""

from __future__ import annotations

from packaging.requirements import Requirement

from reprokit.compat.facts import bundled
from reprokit.explain.judge import explain
from reprokit.importing.changes import RecipeChange
from reprokit.importing.repair import Failure, Fit, RepairLoop, Round
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Variant
from tests.support import logs

VARIANT = Variant.model_validate(
    {
        "base": "debian:12",
        "pins": {"distro": "debian:12", "python": "3.11", "gcc": "12", "numpy": "1.26.4"},
        "sources": [{"name": "t", "git": "https://forge.test/a/b", "commit": "0" * 40, "path": "/opt/t"}],
        "wheels": ["numpy==1.26.4", "protobuf==4.25.0"],
        "apt": ["git"],
    }
)
RECIPE = """\
name: tool  # a comment
paper: {title: T, venue: V, year: 2020, licence: none}
variants:
  cpu:
    base: debian:12
    pins: {distro: "debian:12", python: "3.11"}
    wheels:
      - numpy==1.26.4 # setup.py:3
    blocks: [python, wheels]
"""
CURL = "src/a.c:4:10: fatal error: curl/curl.h: No such file or directory"
H5PY = "ModuleNotFoundError: No module named 'h5py'"


def failure(log: str, step: str = "build") -> Failure:
    return Failure(step, log.splitlines()[-1], tuple(explain(logs.stream(f"{log}\n"), failed=True).causes))


class World:
    """Answers each attempt with the next list of failures, the last one for ever."""

    def __init__(self, *answers: list[Failure], text: str = RECIPE) -> None:
        self.answers, self.text, self.written, self.kept = list(answers), text, [], 0

    def attempt(self) -> list[Failure]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def versions(self, variant, requirement: Requirement):
        if requirement.name == "torch":
            return "torch: no versions fit"
        return [RecipeChange("add", "/variants/*/wheels/-", f"{requirement.name}==1.0")]

    def keep(self, rounds) -> None:
        self.kept = len(rounds)

    def run(self) -> list[Round]:
        fit = Fit(bundled(), self.versions)
        loop = RepairLoop(
            "tool", "cpu", self.text, self.attempt, self.versions, fit, self.written.append, self.keep
        )  # fmt: skip
        return loop.run()

    @property
    def variant(self):
        return load_text(self.written[-1], "tool.yaml", "tool").variants["cpu"]
