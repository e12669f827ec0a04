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


def test_translate_prints_a_line_each(capsys: pytest.CaptureFixture[str]):
    assert command.main(["translate", "6826", "21845", "41115"]) == 0
    assert capsys.readouterr().out == "6826 0 2 1 2 3 4\n21845 0 0\n41115 1 4 3 7 9 10 11 12 14 15\n"


def test_encode_reverses_it(capsys: pytest.CaptureFixture[str]):
    assert command.main(["encode", "0", "2", "1", "2", "3", "4"]) == 0
    assert capsys.readouterr().out == "6826\n"


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
    ],
)
def test_bad_input_is_an_error_and_exit_code_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error


def test_translating_needs_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None; from operator_fusion.command import main; main(['translate', '1365'])"
    )
    folder = ROOT / "workspaces" / "operator_fusion"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.stdout == "1365 0 1 1 4\n", done.stderr


def test_a_search_on_other_machines_needs_no_torch_here():
    """It names what is missing of all searches, each measurement once."""
    search = [
        "tune",
        "--strategy",
        "exact",
        "random",
        "reward",
        "--budget",
        "3",
        "--seeds",
        "2",
        "--machine",
        '{"a": 1}',
    ]
    code = (
        f"import sys; sys.modules['torch'] = None; from operator_fusion.command import main; sys.exit(main({search}))"
    )
    folder = ROOT / "workspaces" / "operator_fusion"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    missing = json.loads(done.stdout)["missing"]
    kinds = [name.split()[0] for name in missing]
    assert (kinds.count("part"), kinds.count("plan"), len(set(missing))) == (121, 7, 128)
    assert "plan 41115" in missing  # where both seeds of reward begin


def test_a_missing_torch_is_named_in_one_line():
    code = "import sys; sys.modules['torch'] = None; from operator_fusion.command import main; sys.exit(main(['tune']))"
    folder = ROOT / "workspaces" / "operator_fusion"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: import of torch halted") and done.stderr.count("\n") == 1


def test_an_old_torch_is_refused_in_one_line():
    code = (
        "import sys, torch; torch.__version__ = '1.13.1'; from operator_fusion.command import main;"
        "sys.exit(main(['tune', '--seq', '8']))"
    )
    folder = ROOT / "workspaces" / "operator_fusion"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: torch 1.13.1 has no torch.compile; use a variant with torch 2.0 or newer\n"


def test_the_predictor_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file, model = tmp_path / "data.txt", str(tmp_path / "model")
    file.write_text("".join(f"{value:016b}   {1 + bin(value).count('1')}\n" for value in range(0, 16384, 100)))
    assert command.main(["train", str(file), "--model", model]) == 0
    out = capsys.readouterr().out
    assert "rank correlation" in out and "median error" in out
    assert command.main(["predict", "1010000010011011", "0" * 16, "--model", model]) == 0
    for line in capsys.readouterr().out.splitlines():
        value, fast = line.split()
        assert float(value) > 0 and fast in ("0", "1")


def test_bad_training_lines_are_printed_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "data.txt"
    file.write_text("x 1\n\n0101 2\n")
    assert command.main(["train", str(file), "--model", str(tmp_path / "model")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in errors] == [f"{file}:1", f"{file}:3"]


def test_a_search_measures_stores_and_ends_in_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    results = tmp_path / "results.jsonl"
    tune = [
        "tune",
        *TINY,
        "--mask",
        "none",
        "--results",
        str(results),
        "--strategy",
        "random",
        "reward",
        "--budget",
        "1",
    ]
    with runtime.eager():
        assert command.main(tune) == 0
    first = capsys.readouterr()
    assert "best plan: " in first.out and "| random | 1 | 1 |" in first.out
    assert "best plan of reward: 41115, time / that of random: " in first.out
    assert "random, seed 0: 1/1, plan " in first.err
    stored = results.read_text()
    with runtime.eager():
        assert command.main([*tune, "--json"]) == 0
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


def test_a_search_on_another_machine_ends_like_one_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Asked again and again, it names what is missing until all is measured, and then prints the same."""
    results = str(tmp_path / "results.jsonl")
    shape = [*TINY[:-2], "--mask", "none", "--results", results]
    search = ["tune", *shape, "--strategy", "random", "reward", "--budget", "1", "--json"]
    with runtime.eager():
        command.main(["measure", *shape, "--rounds", "3", "plan 0"])
        (environment, first) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert first["params"]["id"] == "0" and len(first["samples"]) == 3
        asked = []
        while True:
            assert command.main([*search, "--machine", json.dumps(environment["environment"])]) == 0
            *_, last = lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            if "missing" not in last:
                break
            asked += last["missing"]
            for kind in ("plan", "confirmed", "versus"):
                if names := [name for name in last["missing"] if name.startswith(kind)]:
                    assert command.main(["measure", *shape, "--rounds", "3", *names]) == 0
            capsys.readouterr()
        assert command.main(search) == 0
    assert len(set(asked)) == len(asked) and {name.split()[0] for name in asked} == {"plan", "confirmed", "versus"}
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == lines


def test_a_comparison_goes_seed_by_seed(capsys: pytest.CaptureFixture[str]):
    searches = ["--strategy", "random", "anneal", "--budget", "1", "--seeds", "2", "--mask", "none"]
    with runtime.eager():
        assert command.main(["tune", *TINY, *searches, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    order = [(each["progress"]["strategy"], each["progress"]["seed"]) for each in lines if "progress" in each]
    assert order == [("random", 0), ("anneal", 0), ("random", 1), ("anneal", 1)]


def test_a_dtype_that_the_processor_lacks_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch):
    monkeypatch.setattr("operator_fusion.machine.instruction_sets", lambda: ["avx2"])
    assert command.main(["tune", *TINY, "--dtype", "bfloat16"]) == 2
    assert "--dtype bfloat16: this CPU has no AVX512-BF16" in capsys.readouterr().err


def test_a_cell_of_the_grid_ends_in_its_summary(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("operator_fusion.tune._peak", lambda shape: (500.0, "AMX"))
    cell = ["baselines", *TINY, "--mask", "none", "--plan", "6826"]
    with runtime.eager():
        assert command.main([*cell, "--json"]) == 0
        _, *records, last = map(json.loads, capsys.readouterr().out.splitlines())
        assert command.main(cell) == 0
    found = last["summary"]
    assert found["low"] <= found["median"] <= found["high"]
    assert (found["plan"], found["peak_gflops"], found["peak_of"]) == (6826, 500.0, "AMX")
    assert {record["params"]["impl"] for record in records} >= {"ours", found["rival"], "gemms"}
    assert " % of the raw peak (AMX)\n" in capsys.readouterr().out
