"""JUnit XML that every reader can parse, whatever a command wrote."""

from __future__ import annotations

from xml.etree import ElementTree as xml

from hypothesis import given
from hypothesis import strategies as st

from reprokit.smoke.result import TrialResult, TrialStep, junit_report

RESULTS = [
    TrialResult(
        "fused-attention:cpu",
        (
            TrialStep("build", "pass", 1.5),
            TrialStep("echo '\"<&>\"'", "fail", 0.25, 'exit code 1: "a" < b', "\x1b[31mred\x00\x0b]]>\n"),
            TrialStep("nvidia-smi", "skip", 0.0, "it needs a GPU"),
        ),
        1,
    ),
    TrialResult("gnn:cuda", (TrialStep("all", "skip", 0.0, "it requires a GPU"),)),
]


GOLDEN = """\
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


def test_the_golden_document():
    assert junit_report(RESULTS).decode() == GOLDEN


@given(st.text(), st.text(), st.text())
def test_any_text_gives_a_document_that_is_read_back(name, reason, output):
    root = xml.fromstring(junit_report([TrialResult(name, (TrialStep(name, "fail", 1.0, reason, output),), 1)]))
    failure = root.find("./testsuite/testcase/failure")
    assert failure is not None
    shown = failure.text or ""
    assert [c for c in shown if c.isalnum()] == [c for c in output or reason if c.isalnum()]


def test_surrogates_and_control_characters_do_not_reach_the_file():
    step = TrialStep("\ud800\x01", "fail", 0, "\x7f\ufffe", "ok\t\n")
    root = xml.fromstring(junit_report([TrialResult("x:y", (step,))]))
    case = root.find("./testsuite/testcase")
    assert case is not None and case.get("name") == "\ufffd\ufffd"
