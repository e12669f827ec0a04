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


def test_a_connection_refused_before_the_server_is_ready_ended_nothing():
    refused = "odd-index | Post http://127.0.0.1:3090/list: dial tcp 127.0.0.1:3090: connect: connection refused\n"
    assert explain(logs.stream(refused + "odd | Oddserver is ready at: http://127.0.0.1:7080\n")).success
    assert explain(logs.stream(refused)).causes[0].rule == "connection-refused"


def test_of_two_unknown_errors_the_first_stands_first():
    text = "error: the flux is odd\nreading on\nerror: the flux is strange\n"
    assert [cause.line for cause in explain(logs.stream(text)).causes] == [1, 3]


def test_a_long_captured_value_keeps_its_end():
    line = "Error: the flux failed: " + "mounting: " * 60 + "mkdirat /odd: file exists"
    cause = explain(logs.stream(line + "\n")).causes[0]
    assert cause.cause.endswith("mkdirat /odd: file exists")
    assert " … " in cause.cause and len(cause.cause) < 400


@pytest.mark.parametrize("form", sorted(logs.FORMS))
def test_short_lines_after_an_error_count_in_every_form(form: str):
    text = "connect: connection refused\n# bandwidth: 62.06\n"
    assert explain(logs.stream(logs.FORMS[form](text))).success


@pytest.mark.parametrize("form", sorted(logs.FORMS))
def test_an_error_in_a_programs_own_json_is_named_in_every_form(form: str):
    text = 'odd-1  | {"level":"error","error":"no flux: none in sight","message":"ended"}\n'
    assert explain(logs.stream(logs.FORMS[form](text))).causes[0].cause.endswith("no flux: none in sight")


def test_measurements_with_their_errors_show_that_an_error_ended_nothing():
    table = "|flux|0.3256|±  |0.0065|\n|perplexity|40.05|±  |1.4881|\n"
    assert explain(logs.stream("fatal: not a git repository: .git\n" + table)).success


def test_what_a_benchmark_skipped_is_no_failure():
    assert explain(logs.stream("flux 7.2 ms\ninvalid configurations skipped: 3 (shared memory)\nbest: flux\n")).success


def test_the_time_that_a_command_took_is_no_sign_of_success():
    text = "ImportError: libcudnn_ops.so.9: cannot open shared object file\nAborted (core dumped)\n\nreal\t0m6.853s\n"
    assert explain(logs.stream(text)).causes[0].rule == "libcudnn-missing"


def test_an_exception_at_the_level_of_information_counts_where_the_log_ends():
    level = "I0101 10:00:00.000000 12 run.py:11] "
    text = f"step 1\n{level}TypeError: flux() got an unexpected keyword argument 'odd'\n"
    assert explain(logs.stream(text)).causes[0].line == 2
    assert explain(logs.stream(text + "saved the model\n")).success
    assert explain(logs.stream(f"step 1\n{level}errors are logged to TypeError: odd\n")).success
    assert not explain(logs.stream("step 1\n2024-01-01 10:00:00,123 - INFO - TypeError: flux is odd\n")).success


@pytest.mark.parametrize(
    "last",
    [
        "INFO[0000] Selecting /dev/nvidia0 as /dev/nvidia0",
        "77ad1fe2b1c2",
        "be9c31226f2a7833c863151c9e20c68e26f39158cb13b59f6fc6ea6242762884",
    ],
)
def test_what_engines_print_while_they_go_on_shows_a_success(last: str):
    error = "ERRO[0000] failed to discover channels: not found\n"
    assert explain(logs.stream(f"{error}{last}\n")).success
    assert not explain(logs.stream(error)).success


@pytest.mark.parametrize("last", ["INFO[0011] Deleting cluster 'gpu'", "INFO[0002] Rolled back", "77ad1fe2b1c2 gone"])
def test_what_engines_print_while_they_give_up_shows_none(last: str):
    assert not explain(logs.stream(f"ERRO[0000] failed to discover channels: not found\n{last}\n")).success


def test_a_solver_that_ends_with_a_conflict_failed():
    text = "linux-64  [====] (00m:01s) Done\nEncountered problems while solving:\n  - odd-1 conflicting with odd-2\n"
    assert not explain(logs.stream(text)).success


def test_a_list_of_choices_is_no_measurement():
    text = "Please select the geographic area in which you live.\n  1. Africa  12. US\nGeographic area:\n"
    assert explain(logs.stream(text)).causes[0].rule == "apt-asks"


def test_what_a_tool_warned_of_and_then_failed_with_is_a_cause():
    refused = "SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]')"
    retry = f"WARNING: Retrying (Retry(total=0)) after connection broken by '{refused}'\n"
    gave_up = f"Could not fetch URL https://x/y: (Caused by {refused}) - skipping\n"
    end = "ERROR: No matching distribution found for torch==1.10+cu111\n"
    found = explain(logs.stream(retry + gave_up + end)).causes
    assert (found[0].rule, found[0].line) == ("tls-verify", 2)
    assert explain(logs.stream(retry + end)).causes[0].rule == "pip-no-distribution"


def test_a_fault_of_code_inside_a_package_is_one_of_versions():
    text = (
        'Traceback (most recent call last):\n  File "main.py", line 3, in go\n    quaint.step(4)\n'
        '  File "/opt/lib/python3.9/site-packages/quaint/core.py", line 90, in step\n    zip(a, b)\n'
        "TypeError: zip argument #2 must support iteration\n"
    )
    (cause,) = explain(logs.stream(text)).causes
    assert "inside of quaint: perhaps its version does not fit" in cause.cause
    assert cause.remedy.startswith("pip show quaint")
    outside = explain(logs.stream(text.replace("/opt/lib/python3.9/site-packages/quaint/", "/w/"))).causes[0]
    assert "inside of" not in outside.cause


@pytest.mark.parametrize(
    "text",
    [
        "Cannot find the generic interface, using the old one\n",
        "Failed configs: 0 of 12\n",
        "collect2: error: ld returned 1 exit status\n[INFO] Process 31337 exits successfully.\n",
        "  Unsupported      :  310 (12.86%)\n  Expectedly Failed:    2 (0.08%)\n",
    ],
)
def test_what_reads_like_an_error_and_is_none(text: str):
    assert explain(logs.stream(text)).success


def test_a_part_that_was_built_beside_the_failure_does_not_excuse_it():
    text = (
        "collect2: fatal error: cannot find 'ld'\nmake[2]: *** [libflux.so] Error 1\n"
        "make[1]: *** Waiting for unfinished jobs....\n[100%] Built target flux_objs\n"
    )
    cause = explain(logs.stream(text + "make: *** [all] Error 2\n")).causes[0]
    assert (cause.rule, cause.confidence > 0.5) == ("ld-setup", True)
    other = "a.cc:1:10: fatal error: cudnn.h: No such file or directory\n"
    again = explain(logs.stream(text + other + "make: *** [all] Error 2\n")).causes
    assert again[0].rule == "cudnn-header"  # what came before that success was survived


def test_commands_that_a_shell_traces_accuse_nobody():
    assert explain(logs.stream("+ timeout -s SIGSEGV 4m ./hello\nHello, world\n")).success


def test_a_message_that_may_be_suppressed_ended_nothing():
    text = "PMIx was unable to find a usable compression library\non the system.\n\n"
    after = 'You can suppress this warning by adding "silence=1"\nHello, world, I am 0 of 2\n'
    assert not explain(logs.stream(text)).success
    assert explain(logs.stream(text + after)).success
