"""The command line: what it prints, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from operator_fusion import command, runtime

from tests.support.paths import ROOT

TINY = ["--batch", "2", "--seq", "8", "--heads", "2", "--head-size", "4", "--threads", "1", "--rounds", "3"]
TINY += ["--mask", "none"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Runs a command, uncompiled. Returns what it printed: with --json the lines as objects."""

    def call(*arguments: str):
        with runtime.eager():
            assert command.main([*arguments]) == 0
        text = capsys.readouterr().out
        return [json.loads(line) for line in text.splitlines()] if "--json" in arguments else text

    return call


def test_plans_are_translated_both_ways(run):
    assert run("translate", "6826", "21845", "41115") == "6826 0 2 1 2 3 4\n21845 0 0\n41115 1 4 3 7 9 10 11 12 14 15\n"
    assert run("encode", "0", "2", "1", "2", "3", "4") == "6826\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "65536"], "65536 is not a plan"),
        (["encode", "0", "1", "3"], "is not a plan"),
        (["train", "/nowhere", "--model", "m"], "/nowhere"),
        (["predict", "01", "--model", "m"], "16 characters"),
        (["measure", "plan"], "'plan' is no measurement"),
        (["measure", "x 1"], "'x 1' is no measurement"),
        (["measure", "part 7 3 0"], "'part 7 3 0' is no measurement"),
        (["measure", "plan 65536"], "'plan 65536' is no measurement"),
        (["measure", "--mask", "none", "plan 1", "part 1 1 0"], "one kind"),
        (["measure", "--mask", "none", "versus 1 2", "versus 1 3"], "one kind"),
        (["tune", *TINY, "--dtype", "bfloat16"], "--dtype bfloat16: this CPU has no AVX512-BF16"),
    ],
)
def test_bad_input_is_an_error_and_exit_code_2(arguments: list[str], message: str, capsys, monkeypatch):
    monkeypatch.setattr("operator_fusion.machine.instruction_sets", lambda: ["avx2"])
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error


# Run in this order by one process: no torch to import, then one that is too old.
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from operator_fusion.command import main
main(["translate", "1365"])
print(main(["tune"]))
del sys.modules["torch"]
import torch
torch.__version__ = "1.13.1"
print(main(["tune", "--seq", "8"]))
"""


def test_only_what_computes_needs_torch_and_torch_2(capsys: pytest.CaptureFixture[str]):
    folder = ROOT / "workspaces" / "operator_fusion"
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1365 0 1 1 4", "1", "1"]
    without, old = done.stderr.splitlines()
    assert without.startswith("error: import of torch halted")
    assert old == "error: torch 1.13.1 has no torch.compile; use a variant with torch 2.0 or newer"


def test_the_predictor_alone(tmp_path: Path, run, capsys: pytest.CaptureFixture[str]):
    file, model = tmp_path / "data.txt", str(tmp_path / "model")
    file.write_text("".join(f"{value:016b}   {1 + bin(value).count('1')}\n" for value in range(0, 16384, 100)))
    out = run("train", str(file), "--model", model)
    assert "rank correlation" in out and "median error" in out
    for line in run("predict", "1010000010011011", "0" * 16, "--model", model).splitlines():
        value, fast = line.split()
        assert float(value) > 0 and fast in ("0", "1")
    # Bad lines are printed one by one.
    file.write_text("x 1\n\n0101 2\n")
    assert command.main(["train", str(file), "--model", model]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in errors] == [f"{file}:1", f"{file}:3"]


def test_a_search_measures_stores_and_ends_in_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    results = tmp_path / "results.jsonl"
    tune = ["tune", *TINY, "--results", str(results), "--strategy", "random", "reward", "--budget", "1"]
    with runtime.eager():
        assert command.main(tune) == 0
        first = capsys.readouterr()
        stored = results.read_text()
        assert command.main([*tune, "--json"]) == 0
    assert "best plan: " in first.out and "| random | 1 | 1 |" in first.out
    assert "best plan of reward: 41115, time / that of random: " in first.out
    assert "random, seed 0: 1/1, plan " in first.err
    assert results.read_text() == stored, "the second search measured again"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    progress, [environment, *records, summary] = lines[:2], lines[2:]
    assert [each["progress"]["strategy"] for each in progress] == ["random", "reward"]
    assert progress[1]["progress"]["best"]["plan"] == 41115
    assert set(environment) == {"environment"}
    assert records == [json.loads(line) for line in stored.splitlines()]
    assert [each["params"]["job"] for each in records] == ["plan", "plan", "confirmed", "confirmed", "versus"]
    assert [row["strategy"] for row in summary["summary"]["rows"]] == ["random", "reward"]
    assert [row["own_share"] for row in summary["summary"]["rows"]] == [None, None]
    (versus,) = summary["summary"]["versus"]
    assert (versus["strategy"], versus["plan"]) == ("reward", 41115) and versus["low"] <= versus["median"]


def test_a_comparison_goes_seed_by_seed(run):
    lines = run("tune", *TINY, "--strategy", "random", "anneal", "--budget", "1", "--seeds", "2", "--json")
    order = [(each["progress"]["strategy"], each["progress"]["seed"]) for each in lines if "progress" in each]
    assert order == [("random", 0), ("anneal", 0), ("random", 1), ("anneal", 1)]


def test_a_cell_of_the_grid_ends_in_its_summary(run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("operator_fusion.tune._peak", lambda shape: (500.0, "AMX"))
    cell = ["baselines", *TINY, "--plan", "6826"]
    _, *records, last = run(*cell, "--json")
    summary = last["summary"]
    assert summary["low"] <= summary["median"] <= summary["high"]
    assert (summary["plan"], summary["peak_gflops"], summary["peak_of"]) == (6826, 500.0, "AMX")
    assert {record["params"]["impl"] for record in records} >= {"ours", summary["rival"], "gemms"}
    assert " % of the raw peak (AMX)\n" in run(*cell)
