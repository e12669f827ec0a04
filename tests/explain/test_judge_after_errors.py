"""What follows an error: results, which show that it ended nothing, and the reason that a tool gives below it."""

from __future__ import annotations

import pytest

from reprokit.explain.judge import explain
from tests.support import logs

MISSING = "libodd.so.1: cannot open shared object file: No such file or directory\n"


@pytest.mark.parametrize(
    "results",
    [
        "step 100 tokens/s 81211\nstep 200 tokens/s 81440\n",
        "ITER 1 time 0.212 s\nRESULT throughput 4711.2 samples/s\n",
        "Epoch 1 | Loss 1.9461 |\nEpoch 2 | Loss 1.9412 |\n",
        "shards: 100%|####| 4/4 [00:08<00:00]\nsaved /w/model.pt\n",
    ],
)
def test_an_error_before_two_results_ended_nothing(results: str):
    assert explain(logs.stream(MISSING + results)).success


@pytest.mark.parametrize(
    "after",
    [
        "step 100 tokens/s 81211\n",
        "100.0% proc'd: 0 (0 Gflop/s)\n100.0% proc'd: 0 (0 Gflop/s)\n",
        "make: *** [all] Error 2\nreal time 3.2 s\nuser time 2.1 s\n",
        "finished with errors\nfailed: saved nothing\n",
    ],
)
def test_one_result_or_none_hides_no_failure(after: str):
    assert explain(logs.stream(MISSING + after)).causes[0].rule == "shared-library-missing"


def test_a_warning_of_glog_accuses_nobody():
    assert explain(logs.stream("W1128 17:35:08.65 1738 nvc.c:273] failed to set the flux\n")).success


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("error: Failed to parse `odd.lock`\n  Caused by: entry `flux` has no source\n", "entry `flux` has no source"),
        (
            "LibMambaUnsatisfiableError: Encountered problems while solving:\n\n  - odd 1 needs flux\n",
            "odd 1 needs flux",
        ),
    ],
)
def test_a_reason_below_an_error_is_part_of_the_cause(text: str, reason: str):
    assert explain(logs.stream(text)).causes[0].cause.endswith(f"; the next line: {reason}")


def test_the_end_of_a_long_line_gives_its_reason():
    line = "FATAL:   could not open image /odd.sif: " + "retrieving the path: " * 40 + "lstat /odd: no such file"
    assert explain(logs.stream(line + "\n")).causes[0].cause.endswith('retrieving the path: lstat /odd: no such file")')
