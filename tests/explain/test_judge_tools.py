"""What engines, schedulers and build tools put around their errors hides no cause."""

from __future__ import annotations

import pytest

from reprokit.explain.judge import explain
from tests.support import logs


@pytest.mark.parametrize(
    "before",
    [
        "ERRO[0000] ",
        "Jan 31 15:18:45 n1 dockerd[25565]: ",
        "(raylet) [2021-11-17 10:43:46,668 E 99870 16327337] ",
        "[E 2022-02-22 23:32:03.896 JupyterHub user:800] ",
        "  Warning  Failed  10s (x3 over 1m)  kubelet  ",
        "2023-10-19T11:11:54.957+08:00 stderr F ",
    ],
)
def test_what_loggers_put_before_a_line_is_no_part_of_it(before: str):
    cause = explain(logs.stream(f"{before}mkdir: cannot create directory '/run/odd': Permission denied\n")).causes[0]
    assert cause.text.startswith("mkdir: ")


@pytest.mark.parametrize(
    "line",
    [
        "[conmon:d]: failed to write to /proc/self/oom_score_adj: Permission denied",
        "DEBU[0000] Configured OCI runtime odd failed: no valid executable found: invalid argument",
    ],
)
def test_debug_lines_of_engines_are_no_errors(line: str):
    assert explain(logs.stream(line + "\n")).success


def test_the_error_below_a_traceback_of_bazel_is_the_cause():
    text = (
        "ERROR: An error occurred during the fetch of repository 'odd':\n   Traceback (most recent call last):\n"
        '\tFile "/w/maven.bzl", line 146, column 22, in _maven_impl\n\t\tout = ctx.execute(args)\n'
        "Error in execute: Argument 0 of execute is neither a path, label, nor string.\n"
        "ERROR: Analysis of target '//:odd' failed; build aborted\n"
    )
    cause = explain(logs.stream(text)).causes[0]
    assert (cause.rule, cause.line) == ("bazel-repository-rule", 5)


def test_of_a_chain_of_reasons_the_last_is_given():
    text = (
        "error: Failed to fetch: `http://127.0.0.1:8080/simple/odd/`\n  Caused by: error sending request\n"
        "  Caused by: client error (SendRequest)\n  Caused by: Broken pipe (os error 32)\n"
    )
    cause = explain(logs.stream(text)).causes[0]
    assert cause.rule == "uv-download-failed"
    assert cause.cause.endswith("Broken pipe (os error 32)")


def test_a_general_consequence_does_not_overtake_what_may_be_retried():
    text = (
        "fatal: unable to access 'https://git.example/odd/': The requested URL returned error: 504\n"
        "CMake Error at odd-gitclone.cmake:39 (message):\n  Failed to clone repository: 'https://git.example/odd'\n"
    )
    assert explain(logs.stream(text)).causes[0].rule == "http-5xx"


@pytest.mark.parametrize(
    "last",
    [
        "see https://git.example/k8s-device-plugin#quick-start\n",
        "Local abort before MPI_INIT completed successfully, but not all processes ended\n",
    ],
)
def test_names_and_half_sentences_are_no_signs_of_success(last: str):
    assert not explain(logs.stream("Error: odd thing cannot be read\n" + last)).success


@pytest.mark.parametrize(
    "line",
    [
        "failed to register layer: write /usr/lib/libcudnn.so.8: no space left on device",
        "ERROR: failed to solve: failed to copy files: copy file range failed: no space left on device",
        "Error response from daemon: write /var/lib/docker/tmp/GetImageBlob12: no space left on device",
        'Error: writing blob: storing blob to file "/var/tmp/storage1/2": write: no space left on device',
        "ERROR: failed to solve: ResourceExhausted: mkdir /var/lib/docker/overlay2/ab: no space left on device",
    ],
)
def test_a_full_disk_of_the_engine_is_named_with_what_frees_it(line: str):
    cause = explain(logs.stream(line + "\n")).causes[0]
    assert cause.rule == "engine-disk-full"
    assert "docker system df" in cause.remedy
    assert "reprokit clean" in cause.remedy


def test_the_reason_that_nccl_gives_stands_above_its_general_error():
    error = "RuntimeError: NCCL error in: a.cpp:12, unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
    kind = "ncclSystemError: System call or external library call failed or device error.\n"
    reason = "socketStartConnect: Connect to 1.1.1.1<3> failed : Software caused connection abort"
    before = explain(logs.stream(f"n:1:2 [0] misc/socket.cc:483 NCCL WARN {reason}\n{error}{kind}"))
    assert (before.causes[0].line, "Software caused connection abort" in before.causes[0].cause) == (1, True)
    below = explain(logs.stream(f"{error}{kind}Last error:\n{reason}\n"))
    assert (below.causes[0].line, "Software caused connection abort" in below.causes[0].cause) == (4, True)


def test_the_assembler_of_cuda_ends_with_a_consequence():
    text = "ptxas application ptx input, line 9; error   : Arguments mismatch for instruction 'mov'\n"
    causes = explain(logs.stream(text + "ptxas fatal   : Ptx assembly aborted due to errors\n")).causes
    assert [cause.rule for cause in causes] == ["ptxas-error", "ptxas-aborted"]


def test_the_linker_of_macos_names_the_symbol_that_nothing_defines():
    text = 'Undefined symbols for architecture arm64:\n  "_flux", referenced from:\n      _main in a.o\n'
    cause = explain(logs.stream(text + "ld: symbol(s) not found for architecture arm64\n")).causes[0]
    assert cause.cause.startswith("no library on the linker's command defines _flux for arm64")


def test_another_programs_error_is_no_container_tools():
    assert explain(logs.stream("[ERROR] flux is odd\n")).causes[0].rule == "unexplained"
    enroot = "[INFO] Querying registry for permission grant\n[ERROR] flux is odd\n"
    assert explain(logs.stream(enroot)).causes[0].rule == "container-tool-says"


def test_the_hint_of_a_tool_is_part_of_the_cause():
    text = "Error: cannot open the flux store\n\nhint: it was written by version 9; this is version 7\nexit\n"
    (cause, *_) = explain(logs.stream(text)).causes
    assert cause.cause.endswith("; its hint: it was written by version 9; this is version 7")


def test_what_is_known_exactly_needs_no_hint():
    text = "error: externally-managed-environment\nhint: See PEP 668 for the detailed specification.\n"
    assert "PEP 668" not in explain(logs.stream(text)).causes[0].cause


def test_a_time_in_brackets_hides_no_error():
    text = "[2023-06-11T08:49:21.050Z] ResolvePackageNotFound:\n[2023-06-11T08:49:21.050Z]   - conda==23.3.1\n"
    assert "conda==23.3.1" in explain(logs.stream(text)).causes[0].cause


def test_a_name_that_ends_like_an_error_code_is_none():
    assert explain(logs.stream("error: cannot read TOKENFILE of the run\n")).causes[0].rule != "open-files-system"
    assert explain(logs.stream("error: open flux: ENFILE\n")).causes[0].rule == "open-files-system"


@pytest.mark.parametrize("status", ["403 Forbidden", "410 Gone", "430 Odd", "503 Service Unavailable"])
def test_a_refusal_that_wget_prints_is_a_failure(status: str):
    (cause, *_) = explain(logs.stream(f"HTTP request sent, awaiting response... {status}\n")).causes
    assert cause.cause.endswith(status)


def test_a_gpu_that_fell_off_the_bus_hides_none():
    text = "No devices were found\nNVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert explain(logs.stream(text)).causes[0].rule == "gpu-fell-off-bus"


@pytest.mark.parametrize("mark", ["├─▶ ", "  cause: ", "#9 0.4   ├─▶ "])
def test_the_reason_below_an_error_is_given_before_its_hint(mark: str):
    text = f"error: Failed to fetch: `http://127.0.0.1:8080/odd/`\n{mark}the odd flux broke\nhint: `odd` was included\n"
    assert explain(logs.stream(text)).causes[0].cause.endswith("the next line: the odd flux broke")


def test_what_poetry_says_below_an_exceptions_class_belongs_to_it():
    text = "  FluxError\n\n  the flux cannot be opened\n\n  at odd/flux.py:217 in run\n"
    assert "FluxError the flux cannot be opened" in explain(logs.stream(text)).causes[0].cause


@pytest.mark.parametrize("summary", ["== 2 passed, 1 error in 0.17 seconds ==", "1 failed, 2 passed in 0.2s"])
def test_tests_that_passed_beside_others_are_no_success(summary: str):
    assert not explain(logs.stream(f"ERROR collecting test_odd.py\nit is odd\n{summary}\n")).success


def test_tests_that_were_skipped_or_warned_are_a_success():
    text = "E   odd: error: flux\n== 3 passed, 1 skipped, 1 xfailed, 2 warnings in 2.31s ==\n"
    assert explain(logs.stream(text)).success


def test_packages_that_are_set_up_after_a_failed_one_are_no_success():
    text = (
        "chown: invalid user: 'odd:odd'\ndpkg: error processing package odd (--configure):\n"
        " installed odd package post-installation script subprocess returned error exit status 1\n"
        "Processing triggers for libc-bin (2.31) ...\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n"
    )
    assert explain(logs.stream(text)).causes[0].rule == "dpkg-script-command"
