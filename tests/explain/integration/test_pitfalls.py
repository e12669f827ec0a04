"""Each failure that was met by hand is covered by the mechanisms that are named for it."""

from __future__ import annotations

import io

import pytest

from reprokit.explain.judge import explain
from tests.support.paths import ROOT
from tests.support.pitfalls import page, pitfalls

ALL = pitfalls()


def test_the_page_is_made_of_the_data(request: pytest.FixtureRequest):
    file = ROOT / "docs" / "pitfalls.md"
    if request.config.getoption("--update-golden"):
        file.write_text(page(), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == page(), "run this file with --update-golden"


def test_their_logs_are_explained():
    expected = {pitfall.id: pitfall.covered["explain"] for pitfall in ALL if "explain" in pitfall.covered}
    logs = {pitfall.id: pitfall.log or pitfall.symptom.replace(" ... ", "\n") for pitfall in ALL}
    explained = {name: explain(io.BytesIO(f"{logs[name]}\n".encode()), failed=True).causes[0].rule for name in expected}
    assert explained == expected
