"""Files of records from a stranger's checkout or job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.records import RECORD

Run = Callable[..., str]


@pytest.mark.parametrize("verb", [("results", "show"), ("results", "export", "--csv")])
def test_records_that_have_nothing_in_common(run: Run, tmp_path: Path, verb: tuple[str, ...]) -> None:
    keys = [{f"k{number}_{place}": "x" for place in range(60)} for number in range(400)]
    records = [replace(RECORD, commit=f"{number:040x}", environment=each) for number, each in enumerate(keys)]
    tabs = replace(RECORD, params={"x": "\t" * 100_000})
    (tmp_path / "r.jsonl").write_text("".join(f"{each.to_json()}\n" for each in [*records, tabs]))
    assert f"{RECORD.metric}" in run(*verb, "--records", "r.jsonl")
