"""What loggers and launchers put before a line does not hide its beginning."""

from __future__ import annotations

import pytest

from reprokit.explain.judge import explain
from tests.support import logs


@pytest.mark.parametrize("before", ["E   ", "[3]<stderr>:", "[1,0]<stderr>: ", "Fri Sep 25 16:52:35 2020[3]<stderr>:"])
def test_a_line_is_known_behind_what_stands_before_it(before: str):
    cause = explain(logs.stream(f"{before}MemoryError\n")).causes[0]
    assert (cause.rule, cause.text) == ("python-memory", "MemoryError")
