"""Files of records from a stranger's checkout or job."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.records import RECORD

pytestmark = pytest.mark.long

Run = Callable[..., str]


FILE = "results/fused-attention.jsonl"
VERBS = {
    "show": ("results", "show", "fused-attention"),
    "list": ("results", "list"),
    "export": ("results", "export", "--csv", "--records", FILE),
    "compare": ("results", "compare", FILE, FILE),
    "report": ("report", "fused-attention", "-o", "page"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("digits", [400, 5000])
def test_integers_of_many_digits(run: Run, tmp_path: Path, verb: str, digits: int) -> None:
    (tmp_path / "results").mkdir()
    fields = [{"params": {"x": "?"}}, {"repeats": ["?"]}, {"before": {"cpu_clock": "?"}}, {"environment": {"x": "?"}}]
    for field in fields:
        text = json.dumps({**json.loads(RECORD.to_json()), **field}).replace('"?"', "9" * digits)
        (tmp_path / FILE).write_text(f"{RECORD.to_json()}\n{text}\n")
        said = run(*VERBS[verb], code=2)
        assert f"{FILE}:2" in said and said.count("error:") == 1


@pytest.mark.parametrize("verb", [("results", "show"), ("results", "export", "--csv")])
def test_records_that_have_nothing_in_common(run: Run, tmp_path: Path, verb: tuple[str, ...]) -> None:
    keys = [{f"k{number}_{place}": "x" for place in range(60)} for number in range(400)]
    records = [replace(RECORD, commit=f"{number:040x}", environment=each) for number, each in enumerate(keys)]
    tabs = replace(RECORD, params={"x": "\t" * 100_000})
    (tmp_path / "r.jsonl").write_text("".join(f"{each.to_json()}\n" for each in [*records, tabs]))
    assert f"{RECORD.metric}" in run(*verb, "--records", "r.jsonl")
