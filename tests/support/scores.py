"""How well `explain` does on a log of the corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reprokit.explain.judge import explain
from tests.support.logs import NEAR, Log, stream


@dataclass
class Score:
    """Counts of one area."""

    failures: int = 0
    first: int = 0
    top: int = 0
    near: int = 0
    successes: int = 0
    quiet: int = 0

    def add(self, other: Score) -> None:
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def judge(log: Log, form: Callable[[str], str]) -> Score:
    text = log.noisy()
    found = explain(stream(form(text)))
    if log.rule is None:
        return Score(successes=1, quiet=int(found.success is not False))
    rules = [log.rule if cause.rule in log.also else cause.rule for cause in found.causes]
    near = bool(found.causes) and abs(found.causes[0].line - log.causal(text)) <= NEAR
    return Score(1, int(rules[:1] == [log.rule]), int(log.rule in rules[:3]), int(near))
