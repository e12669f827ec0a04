"""Small files of a stranger's checkout that would keep `claims` and `results` busy for minutes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

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
from reprokit.results.likeness import Group, groups
from reprokit.untrusted.text import dump
from tests.support.records import RECORD

MANY = 150
HEAD = "name: paper\npaper: {title: T, venue: V, year: 2020, licence: MIT}\nvariants: {cpu: {base: 'debian:12'}}\n"
CLAIM = "{metric: t, unit: ms, hardware: h, where: w, over: best"


def recipe(*rest: str) -> Recipe:
    rest = tuple(each if "value: " in each else f", value: 1{each}" for each in rest)
    return load_text(HEAD + f"claims: [{', '.join(f'{CLAIM}{each}}}' for each in rest)}]", "paper.yaml", "paper")


def measured(count: int) -> Sequence[Group]:
    """As many cases of two implementations."""
    params = ({"n": n, "impl": impl} for n in range(count) for impl in ("ours", "theirs"))
    return groups(replace(RECORD, recipe="paper", metric="t", params=each) for each in params)


@pytest.mark.parametrize(
    "claim",
    ["", ", tolerance: 0.{}1", ", params: {{n: {}}}", ", params: {{n: {}, impl: ours}}",
     ", tolerance: 0.{}1, baseline: {{params: {{impl: theirs}}}}, params: {{impl: ours}}"],
)  # fmt: skip
def test_claims_are_not_compared_with_every_record(claim: str, monkeypatch: pytest.MonkeyPatch):
    steps = 0

    def counted(called: Callable[..., object], *given: object) -> object:
        nonlocal steps
        steps += 1
        return called(*given)

    for name in ("has_params", "key_of", "other_hardware", "ratio_interval", "_apart", "_variation"):
        monkeypatch.setattr(claims, name, partial(counted, getattr(claims, name)))
    paper, cases = recipe(*(claim.format(n) for n in range(MANY))), measured(MANY)
    judged = judge(paper, cases, bundled())
    assert steps < 20 * 2 * MANY  # and 2 * MANY * MANY if each claim looks at each record
    assert judged[-1] == judge(recipe(claim.format(MANY - 1)), cases, bundled())[0]  # the control: the verdict alone
    assert judged[-1].measured == 2.0 or "baseline" in claim


@pytest.mark.slow
def test_what_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch):
    """Each claim names another CPU, and each record is of another: nothing can be grouped."""
    monkeypatch.setenv("REPROKIT_LIMIT_CLAIM_SECONDS", "1")
    paper = recipe(*(f", gpu: none, cpu: '{' '.join(map(str, range(n, n + 50)))}'" for n in range(1000)))
    cpus = groups(replace(RECORD, recipe="paper", metric="t", cpu=str(n)) for n in range(2000))
    with pytest.raises(UsageError, match="judging the claims takes more than 1 s") as refused:
        judge(paper, cpus, bundled())
    assert refused.value.where == "paper" and "REPROKIT_LIMIT_CLAIM_SECONDS=2" in refused.value.hint
    assert judge(recipe(), cpus, bundled()) == []  # the control


def test_the_last_of_many_tables_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(results, "_MOST_SHOWN", 2)
    for number in range(3):
        lines.append(tmp_path, "results/paper.jsonl", [replace(RECORD, recipe="paper", commit=f"{number:040}")])
        shown = CliRunner().invoke(cli.app, ["results", "show"]).output
        assert shown.count("attention.forward") == min(number + 1, 2)
    assert "the last 2 of 3 tables" in shown


@pytest.mark.parametrize("field", ["value: {}", "value: 1, params: {{n: {}}}", "value: 1, baseline: {{value: {}}}"])
def test_numbers_that_json_cannot_hold_are_refused(field: str):
    for number in (".inf", "-.inf", ".nan"):
        with pytest.raises(UsageError, match="finite number"):
            recipe(f", {field.format(number)}")
    assert recipe(f", {field.format(2.5)}").claims  # the control


def test_no_verb_prints_other_json(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump({"ratio": float("inf")})
    dump({"ratio": 0.5})
    assert json.loads(capsys.readouterr().out) == {"ratio": 0.5}
