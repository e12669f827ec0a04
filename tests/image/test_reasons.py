"""Why a step runs again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.image.reasons import StepFacts, facts, keep, last, reason
from tests.support.builds import target_of

STEP = facts("1.2", "RUN a", {"A": "1", "REPROKIT_APT_PYTHON": "http://x"}, "stage", "base")


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (replace(STEP, place="1.3"), "it is new"),
        (replace(STEP, base="other"), "the base changed"),
        (replace(STEP, text="other"), "its instruction changed"),
        (replace(STEP, copies="other"), "what it copies changed"),
        (STEP, "its image is gone"),
        (facts("1.2", "RUN a", {"A": "2", "REPROKIT_APT_PYTHON": "y"}, "stage", "base"), "changed: A, apt"),
        (facts("1.2", "RUN a", {"REPROKIT_APT_PYTHON": "http://x", "B": ""}, "stage", "base"), "changed: A, B"),
    ],
)
def test_what_differs_is_named(now: StepFacts, why: str) -> None:
    assert reason(now, [facts("1.1", "", {}, "", ""), STEP]) == why


def test_the_steps_of_the_last_build_are_kept_without_their_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    target = target_of("reasons-of-a-test")
    assert last(target) == []
    keep(target, [STEP])
    assert last(target) == [STEP]
    (file,) = tmp_path.rglob("reasons-of-a-test-v.json")
    assert "http://x" not in file.read_text()
    file.write_text("[{}]")
    assert last(target) == []
