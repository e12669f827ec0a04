"""What loggers and launchers put before a line does not hide its beginning."""

from __future__ import annotations

import pytest

from reprokit.explain.judge import explain
from tests.support import logs


@pytest.mark.parametrize(
    "before", ["E   ", "E       ", "[3]<stderr>:", "[1,0]<stderr>: ", "Fri Sep 25 16:52:35 2020[3]<stderr>:"]
)
def test_a_line_is_known_behind_what_stands_before_it(before: str):
    cause = explain(logs.stream(f"{before}MemoryError\n")).causes[0]
    assert (cause.rule, cause.text) == ("python-memory", "MemoryError")


@pytest.mark.parametrize("form", sorted(logs.FORMS))
def test_the_neighbours_of_a_line_are_read_in_every_form(form: str):
    text = (
        "CMake Error at a.cmake:3 (message):\n  No download info given for 'odd' and its source\n  directory:\n\n"
        "   /w/odd.cpp\n\n  is not an existing non-empty directory.  Please specify one of:\n"
        "-- Configuring incomplete, errors occurred!\n"
    )
    assert explain(logs.stream(logs.FORMS[form](text))).causes[0].rule == "cmake-external-empty"


@pytest.mark.parametrize("form", sorted(logs.FORMS))
def test_what_a_rule_needs_on_other_lines_is_found_in_every_form(form: str):
    text = (
        "ERROR: Cannot install odd==1 and even==2 because these package versions have conflicting dependencies.\n\n"
        "The conflict is caused by:\n    The user requested odd==1\n    even 2 depends on odd>=3\n"
    )
    cause = explain(logs.stream(logs.FORMS[form](text))).causes[0]
    assert (cause.rule, cause.line) == ("pip-conflict", 3)
    assert cause.cause.endswith("exclude one another: The user requested odd==1; even 2 depends on odd>=3")
