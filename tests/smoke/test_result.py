"""One verdict from several steps, and one exit code from several verdicts."""

from __future__ import annotations

import pytest

from reprokit.smoke.result import TrialResult, TrialStep, exit_code

BUILD = TrialStep("build", "pass", 10.0)
COMMAND = TrialStep("python3 -c 'import tvm'", "pass", 2.25)
FAILED = TrialStep("make test", "fail", 1.0, "exit code 2", "boom")
SKIPPED = TrialStep("nvidia-smi", "skip", 0.0, "it needs a GPU")


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ((BUILD, COMMAND), "pass  gnn:cpu  12.2 s"),
        ((BUILD, FAILED, COMMAND), "fail  gnn:cpu  13.2 s  make test: exit code 2"),
        ((BUILD, SKIPPED), "pass  gnn:cpu  10.0 s  skipped 1: it needs a GPU"),
        ((SKIPPED,), "skip  gnn:cpu  0.0 s  it needs a GPU"),
        ((TrialStep("build", "fail", 1.0, "two\nlines"),), "fail  gnn:cpu  1.0 s  build: two lines"),
    ],
)
def test_a_verdict_is_one_line(steps, line):
    assert TrialResult("gnn:cpu", steps).line() == line


def result(status: str, code: int = 0) -> TrialResult:
    return TrialResult("x:y", (TrialStep("s", status),), code)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], 0),
        ([result("pass"), result("skip")], 0),
        ([result("skip"), result("skip")], 3),
        ([result("pass"), result("fail", 1)], 1),
        ([result("fail", 4), result("fail", 4)], 4),
        ([result("fail", 4), result("fail", 3)], 1),
        ([result("fail", 2)], 1),
        ([result("fail", 3), result("fail", 3)], 1),
    ],
)
def test_a_failure_is_exit_code_1_but_4_where_only_the_network_failed(results, code):
    assert exit_code(results) == code


def test_json_has_every_step():
    data = TrialResult("gnn:cpu", (BUILD, FAILED), 1).to_json()
    assert data["status"] == "fail" and data["seconds"] == 11.0
    assert data["steps"][1] == {
        "name": "make test", "status": "fail", "seconds": 1.0, "reason": "exit code 2", "output": "boom",
    }  # fmt: skip
