"""Records of a stranger's checkout: `report` writes to no other path, and `claims` and `results` end in time."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from reprokit import cli
from reprokit.commands import results
from reprokit.compat.facts import bundled
from reprokit.errors import UsageError
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Recipe
from reprokit.results import claims, lines
from reprokit.results.claims import judge
from reprokit.results.formats import as_csv, as_markdown
from reprokit.results.likeness import Group, groups
from reprokit.results.tables import ReportTable
from reprokit.untrusted.terminal import dump
from tests.support.records import RECORD

MANY = 150
HEAD = "name: paper\npaper: {title: T, venue: V, year: 2020, licence: MIT}\nvariants: {cpu: {base: 'debian:12'}}\n"
CLAIM = "{metric: t, unit: ms, hardware: h, where: w, over: best"
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


@pytest.fixture
def checkout(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("matplotlib", reason="pip install .[results]")
    folder = tmp_path / "checkout"
    for name in ("recipes", "results", "report"):
        (folder / name).mkdir(parents=True)
    (folder / "recipes" / "paper.yaml").write_text(HEAD)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/none")
    return folder


def report(checkout: Path, records: list[dict[str, Any]]) -> None:
    (checkout / "results" / "paper.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    done = CliRunner().invoke(cli.app, ["report", "paper", "-o", "report"])
    assert (done.exit_code, done.stderr) == (0, ""), done


@pytest.mark.slow
def test_a_report_is_written_to_its_folder_alone(checkout: Path):
    """No link is followed."""
    (checkout.parent / "profile").write_text("mine")
    written = [checkout / "report" / name for name in ("index.html", "summary.md")]
    for path in written:
        path.symlink_to(checkout.parent / "profile")
    report(checkout, attention({}))
    assert (checkout.parent / "profile").read_text() == "mine"
    assert all(path.is_file() and not path.is_symlink() for path in written)
    assert "Reproduction of paper" in written[0].read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("error::RuntimeWarning", "error::UserWarning")
@pytest.mark.parametrize(
    ("changes", "samples", "fields"),
    [
        ({"batch": [1]}, 1.0, {}), ({"seq": "x"}, 1.0, {}), ({"seq": -1}, 1.0, {}), ({"dtype": "other"}, 1.0, {}),
        ({"impl": ["ours"]}, 1.0, {}), ({"clock": [1]}, 1.0, {}), ({}, 0.0, {}), ({}, 1e150, {}),
        ({}, 1.0, {"cpu": "$\\frac{$"}), ({}, 1.0, {"gpu": "", "environment": {"torch": {"$^$": 1}}}),
        ({"mask": "other"}, 1.0, {}),
    ],
)  # fmt: skip
def test_records_of_any_shape_have_a_report(checkout: Path, changes, samples, fields):
    report(checkout, attention(changes, samples, **fields))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("text", ["=1+1", "a;=1+1", "a\t=1+1", " @SUM(1)", "\uff1d1+1", 'a";"=1+1', "a;\n+1+x"])
def test_no_cell_is_a_formula_whatever_separates_cells(text: str, separator: str):
    table = ReportTable(text, text, (text,), ((text,), ("-3.5",)))
    cells = [cell for row in csv.reader(as_csv([table]).splitlines(), delimiter=separator) for cell in row]
    assert not [c for c in cells if c.strip()[:1] in tuple("=+@\uff1d") or (c[:1] == "-" and "-3.5" not in c)]
    assert "-3.5" in as_csv([table])  # the control: a number stays one


def test_markdown_has_no_links_and_formulas():
    page = as_markdown([ReportTable("www.example.org $x$", "WWW.example.org 1.5", ("a",), (("b",),))])
    assert "www\\." in page and "WWW\\." in page and "\\$x\\$" in page
    assert "1.5" in page  # the control: other text stays as it is


# --- Small files that would keep a verb busy for minutes


def recipe(*fields: str) -> Recipe:
    """With a claim for each text of fields."""
    fields = tuple(each if "value: " in each else f", value: 1{each}" for each in fields)
    return load_text(HEAD + f"claims: [{', '.join(f'{CLAIM}{each}}}' for each in fields)}]", "paper.yaml", "paper")


def measured(count: int) -> Sequence[Group]:
    """As many cases of two implementations."""
    params = ({"n": n, "impl": impl} for n in range(count) for impl in ("ours", "theirs"))
    return groups(replace(RECORD, recipe="paper", metric="t", params=each) for each in params)


@pytest.mark.parametrize(
    "claim",
    ["", ", tolerance: 0.{}1", ", params: {{n: {}}}", ", params: {{n: {}, impl: ours}}",
     ", tolerance: 0.{}1, baseline: {{params: {{impl: theirs}}}}, params: {{impl: ours}}"],
)  # fmt: skip
def test_claims_are_not_compared_with_every_record(claim: str, monkeypatch):
    steps = 0

    def counted(called: Callable[..., object], *arguments: object) -> object:
        nonlocal steps
        steps += 1
        return called(*arguments)

    for name in ("has_params", "key_of", "other_hardware", "ratio_interval", "_apart", "_variation"):
        monkeypatch.setattr(claims, name, partial(counted, getattr(claims, name)))
    paper, cases = recipe(*(claim.format(n) for n in range(MANY))), measured(MANY)
    judged = judge(paper, cases, bundled())
    assert steps < 20 * 2 * MANY  # and 2 * MANY * MANY if each claim looks at each record
    assert judged[-1] == judge(recipe(claim.format(MANY - 1)), cases, bundled())[0]  # the control: the verdict alone
    assert judged[-1].measured == 2.0 or "baseline" in claim


@pytest.mark.slow
def test_claims_that_take_too_long_are_refused(monkeypatch):
    """Each claim names another CPU, and each record is of another: nothing can be grouped."""
    monkeypatch.setenv("REPROKIT_LIMIT_CLAIM_SECONDS", "1")
    paper = recipe(*(f", gpu: none, cpu: '{' '.join(map(str, range(n, n + 50)))}'" for n in range(1000)))
    cpus = groups(replace(RECORD, recipe="paper", metric="t", cpu=str(n)) for n in range(2000))
    with pytest.raises(UsageError, match="judging the claims takes more than 1 s") as refused:
        judge(paper, cpus, bundled())
    assert refused.value.where == "paper" and "REPROKIT_LIMIT_CLAIM_SECONDS=2" in refused.value.hint
    assert judge(recipe(), cpus, bundled()) == []  # the control


def test_the_last_of_many_tables_are_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(results, "_MOST_SHOWN", 2)
    for number in range(3):
        lines.append(tmp_path, "results/paper.jsonl", [replace(RECORD, recipe="paper", commit=f"{number:040}")])
        shown = CliRunner().invoke(cli.app, ["results", "show"]).output
        assert shown.count("attention.forward") == min(number + 1, 2)
    assert "the last 2 of 3 tables" in shown


def test_numbers_that_json_cannot_hold_are_refused(capsys):
    for field in ("value: {}", "value: 1, params: {{n: {}}}", "value: 1, baseline: {{value: {}}}"):
        for number in (".inf", "-.inf", ".nan"):
            with pytest.raises(UsageError, match="finite number"):
                recipe(f", {field.format(number)}")
        assert recipe(f", {field.format(2.5)}").claims  # the control
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump({"ratio": float("inf")})
    dump({"ratio": 0.5})
    assert json.loads(capsys.readouterr().out) == {"ratio": 0.5}
