"""Each failure that was met by hand is covered by the mechanisms that are named for it."""

from __future__ import annotations

import ast
import io
from functools import cache
from pathlib import Path

import pytest

from reprokit.explain.judge import explain
from tests.support.paths import ROOT
from tests.support.pitfalls import Pitfall, page, pitfalls

ALL = pitfalls()
IDS = [pitfall.id for pitfall in ALL]
PREDICTED = ROOT / "tests" / "compat" / "integration" / "test_pitfalls.py"
BY_TEST = [(p.id, mechanism, by) for p in ALL for mechanism, by in p.covered.items() if "::" in by]


def test_the_page_is_made_of_the_data(request: pytest.FixtureRequest):
    file = ROOT / "docs" / "pitfalls.md"
    if request.config.getoption("--update-golden"):
        file.write_text(page(), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == page(), "run this file with --update-golden"


def test_every_pitfall_is_named_once():
    assert len(set(IDS)) == len(IDS) >= 61


@pytest.mark.parametrize("pitfall", [p for p in ALL if "explain" in p.covered], ids=lambda p: p.id)
def test_its_log_is_explained(pitfall: Pitfall):
    log = (pitfall.log or pitfall.symptom.replace(" ... ", "\n")) + "\n"
    assert explain(io.BytesIO(log.encode()), failed=True).causes[0].rule == pitfall.covered["explain"]


@pytest.mark.parametrize("pitfall", [p for p in ALL if "check" in p.covered], ids=lambda p: p.id)
def test_its_stack_is_judged_by_the_rule(pitfall: Pitfall):
    """The table of tests/compat/integration/test_pitfalls.py has the stack; its test expects this rule."""
    (rows,) = [
        node.value
        for node in ast.parse(PREDICTED.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PITFALLS"
    ]
    assert isinstance(rows, ast.Dict)
    table = {ast.literal_eval(key): value for key, value in zip(rows.keys, rows.values, strict=True) if key}
    row = table[pitfall.id]
    assert isinstance(row, ast.Tuple) and ast.literal_eval(row.elts[3]) == pitfall.covered["check"]


@pytest.mark.parametrize(("name", "mechanism", "test"), BY_TEST, ids=[f"{i}-{m}" for i, m, _ in BY_TEST])
def test_the_test_that_shows_it_exists(name: str, mechanism: str, test: str):
    file, _, function = test.partition("::")
    assert function in functions(ROOT / file)
    if function == "test_a_pitfall_is_named_before_what_asserts_it":
        assert f'"{name}",' in (ROOT / file).read_text()


def test_a_test_that_is_gone_would_be_found():
    assert "test_that_never_was" not in functions(Path(__file__))
    assert "test_every_pitfall_is_named_once" in functions(Path(__file__))


@cache
def functions(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}
