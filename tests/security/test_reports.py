"""Records of a stranger's checkout, in the files that `report` and `results export` write."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from reprokit.results.formats import as_csv, as_markdown
from reprokit.results.tables import ReportTable
from tests.support.records import RECORD
from tests.support.verbs import run_verb

pytestmark = pytest.mark.slow

RECIPE = """\
name: paper
paper: {title: T, venue: V, year: 2020, licence: MIT}
variants: {cpu: {base: "debian:12"}}
"""
CASE: dict[str, Any] = {
    "device": "cpu", "threads": 1, "batch": 1, "heads": 1, "kv_heads": 1, "seq": 128, "dim": 64, "dtype": "float32",
    "mask": "none",
}  # fmt: skip


def attention(changes: dict[str, Any], samples: float = 1.0, **fields: Any) -> list[dict[str, Any]]:
    """The records of one case of the attention benchmark."""
    record = {**json.loads(RECORD.to_json()), "recipe": "paper", "variant": "cpu", "samples": [samples], **fields}
    del record["spread"]
    times = [{"impl": impl, **CASE, **changes} for impl in ("ours", "sdpa")]
    counts = {
        "fused_attention.work": "GFLOP", "fused_attention.traffic": "MB", "machine.peak": "GFLOP/s",
        "machine.bandwidth": "GB/s",
    }  # fmt: skip
    return [
        *({**record, "metric": "fused_attention.forward", "params": params} for params in times),
        *({**record, "metric": metric, "unit": unit, "params": {**CASE, **changes}} for metric, unit in counts.items()),
    ]


def report(folder: Path, records: list[dict[str, Any]]) -> None:
    pytest.importorskip("matplotlib", reason="pip install .[results]")
    (folder / "recipes").mkdir(parents=True, exist_ok=True)
    (folder / "recipes" / "paper.yaml").write_text(RECIPE)
    (folder / "results").mkdir(exist_ok=True)
    (folder / "results" / "paper.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    env = {"REPROKIT_HOME": str(folder / "home"), "DOCKER_HOST": f"unix://{folder}/none"}
    ran = run_verb("report", "paper", "-o", "report", cwd=folder, env=env)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_parameter_is_no_path(tmp_path):
    report(tmp_path / "checkout", attention({"batch": "x/../../../escaped"}))
    assert [path.name for path in tmp_path.iterdir()] == ["checkout"]
    report(tmp_path / "checkout", attention({}))  # the control: a number names a file
    assert (tmp_path / "checkout" / "report" / "plots" / "speedup-batch-1.svg").exists()


def test_a_report_is_not_written_through_links(tmp_path):
    (tmp_path / "profile").write_text("mine")
    (tmp_path / "checkout" / "report" / "plots").mkdir(parents=True)
    for name in ("index.html", "summary.md", "plots/speedup-batch-1.svg"):
        (tmp_path / "checkout" / "report" / name).symlink_to(tmp_path / "profile")
    report(tmp_path / "checkout", attention({}))
    assert (tmp_path / "profile").read_text() == "mine"
    assert "Reproduction of paper" in (tmp_path / "checkout" / "report" / "index.html").read_text()


@pytest.mark.parametrize(
    ("changes", "samples", "fields"),
    [
        ({"batch": [1]}, 1.0, {}), ({"seq": "x"}, 1.0, {}), ({"seq": -1}, 1.0, {}), ({"dtype": "other"}, 1.0, {}),
        ({"impl": ["ours"]}, 1.0, {}), ({"clock": [1]}, 1.0, {}), ({}, 0.0, {}), ({}, 1e150, {}),
        ({}, 1.0, {"cpu": "$\\frac{$"}), ({}, 1.0, {"gpu": "", "environment": {"torch": {"$^$": 1}}}),
        ({"mask": "other"}, 1.0, {}),
    ],
)  # fmt: skip
def test_records_of_any_shape_have_a_report(tmp_path, changes, samples, fields):
    report(tmp_path, attention(changes, samples, **fields))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("text", ["=1+1", "a;=1+1", "a\t=1+1", " @SUM(1)", "\uff1d1+1", 'a";"=1+1', "a;\n+1+x"])
def test_no_cell_is_a_formula_whatever_separates_cells(text, separator):
    table = ReportTable(text, text, (text,), ((text,), ("-3.5",)))
    cells = [cell for row in csv.reader(as_csv([table]).splitlines(), delimiter=separator) for cell in row]
    assert not [c for c in cells if c.strip()[:1] in tuple("=+@\uff1d") or (c[:1] == "-" and "-3.5" not in c)]
    assert "-3.5" in as_csv([table])  # the control: a number stays one


def test_markdown_has_no_links_and_formulas():
    page = as_markdown([ReportTable("www.example.org $x$", "WWW.example.org 1.5", ("a",), (("b",),))])
    assert "www\\." in page and "WWW\\." in page and "\\$x\\$" in page
    assert "1.5" in page  # the control: other text stays as it is
