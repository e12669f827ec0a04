"""One verdict from several steps, one exit code from several verdicts, and JUnit XML that every reader can parse."""

from __future__ import annotations

from xml.etree import ElementTree as xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.smoke.result import TrialResult, TrialStep, exit_code, junit_report

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


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], 0),
        ([("pass", 0), ("skip", 0)], 0),
        ([("skip", 0), ("skip", 0)], 3),
        ([("pass", 0), ("fail", 1)], 1),
        ([("fail", 4), ("fail", 4)], 4),
        ([("fail", 4), ("fail", 3)], 1),
        ([("fail", 2)], 1),
        ([("fail", 3), ("fail", 3)], 1),
    ],
)
def test_a_failure_is_exit_code_1_but_4_where_only_the_network_failed(results, code):
    assert exit_code([TrialResult("x:y", (TrialStep("s", status),), failure) for status, failure in results]) == code


def test_json_has_every_step():
    data = TrialResult("gnn:cpu", (BUILD, FAILED), 1).to_json()
    assert data["status"] == "fail" and data["seconds"] == 11.0
    assert data["steps"][1] == {
        "name": "make test", "status": "fail", "seconds": 1.0, "reason": "exit code 2", "output": "boom",
    }  # fmt: skip


REPORT = """\
<?xml version='1.0' encoding='utf-8'?>
<testsuites name="reprokit smoke" tests="4" failures="1" errors="0" skipped="2" time="1.750">
  <testsuite name="fused-attention:cpu" tests="3" failures="1" errors="0" skipped="1" time="1.750">
    <testcase classname="fused-attention.cpu" name="build" time="1.500" />
    <testcase classname="fused-attention.cpu" name="echo '&quot;&lt;&amp;&gt;&quot;'" time="0.250">
      <failure message="exit code 1: &quot;a&quot; &lt; b">\ufffd[31mred\ufffd\ufffd]]&gt;
</failure>
    </testcase>
    <testcase classname="fused-attention.cpu" name="nvidia-smi" time="0.000">
      <skipped message="it needs a GPU" />
    </testcase>
  </testsuite>
  <testsuite name="gnn:cuda" tests="1" failures="0" errors="0" skipped="1" time="0.000">
    <testcase classname="gnn.cuda" name="all" time="0.000">
      <skipped message="it requires a GPU" />
    </testcase>
  </testsuite>
</testsuites>
"""


def test_the_junit_report():
    echo = TrialStep("echo '\"<&>\"'", "fail", 0.25, 'exit code 1: "a" < b', "\x1b[31mred\x00\x0b]]>\n")
    first = TrialResult("fused-attention:cpu", (TrialStep("build", "pass", 1.5), echo, SKIPPED), 1)
    second = TrialResult("gnn:cuda", (TrialStep("all", "skip", 0.0, "it requires a GPU"),))
    assert junit_report([first, second]).decode() == REPORT


@given(st.text(), st.text(), st.text())
def test_any_text_gives_a_document_that_is_read_back(name, reason, output):
    root = xml.fromstring(junit_report([TrialResult(name, (TrialStep(name, "fail", 1.0, reason, output),), 1)]))
    failure = root.find("./testsuite/testcase/failure")
    assert failure is not None
    shown = failure.text or ""
    assert [c for c in shown if c.isalnum()] == [c for c in output or reason if c.isalnum()]


def test_surrogates_and_control_characters_do_not_reach_the_file():
    step = TrialStep("\ud800\x01", "fail", 0, "\x7f\ufffe", "ok\t\n")
    case = xml.fromstring(junit_report([TrialResult("x:y", (step,))])).find("./testsuite/testcase")
    assert case is not None and case.get("name") == "\ufffd\ufffd"
