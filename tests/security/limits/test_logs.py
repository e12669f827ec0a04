"""Logs in which each line looks like many known errors at once, so that many rules are tried on it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.explain.load import bundled
from reprokit.explain.place import LONGEST

pytestmark = pytest.mark.long


def test_lines_that_are_like_many_errors(run: Callable[..., str], tmp_path: Path):
    examples = [" ".join(rule.example.split()) for rule in bundled()[0]]
    draw = random.Random(0)
    lines = (" ".join(draw.sample(examples, 100))[:LONGEST] for _ in range(150))
    (log := tmp_path / "build.log").write_text("\n".join(lines))
    assert "line 1: " in run("explain", log)
