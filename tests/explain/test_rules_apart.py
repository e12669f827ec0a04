"""Rules that must not take each other's text, and sentences of which a part was not captured."""

from __future__ import annotations

import re
from copy import copy

import pytest

from reprokit.explain.judge import explain
from reprokit.explain.load import bundled, matcher
from reprokit.explain.model import ADDED, FIELD, Explanation, LogRule, Neighbour
from reprokit.untrusted.patterns import compiled
from tests.support import logs

# Lines around a causal line that are read with it, as far as most rules look.
AROUND = 6
# Words that need what follows them.
OPEN = re.compile(
    r"(?<![-\w])(?:a|an|the|no|to|for|from|with|at|in|on|than|and|or|is|has|not|cannot|reach|refuses|copies|find|install"
    r"|download|uses|lacks|needs|offer|building) \{(\w+)\}"
)


class NoIndex:
    """A word index without lines: ranks do not depend on it, and it takes most of the time."""

    def nearest(self, text: str) -> list[Neighbour]:
        return []


def explained(text: str) -> Explanation:
    return explain(logs.stream(text))


def test_no_exact_rule_explains_the_line_of_another_cause():
    """Logs that are held out are left out: a rule corrected for one of them would spoil their measure."""
    rules = copy(matcher())
    rules.index = NoIndex()  # type: ignore[assignment]
    confused = []
    for log in logs.corpus():
        if log.rule is None or log.held_out:
            continue
        lines = log.log.split("\n")
        at = log.causal(log.log) - 1
        right = {log.rule, *log.also}
        owners = [owner for n in rules.search(lines[at].encode()) if isinstance(owner := rules.owners[n], LogRule)]
        if not any(owner.kind == "exact" and owner.id not in right for owner in owners):
            continue
        first = max(0, at - AROUND)
        causes = explain(logs.stream("\n".join(lines[first : at + AROUND + 1])), failed=True, rules=rules).causes
        if causes and causes[0].kind == "exact" and causes[0].rule not in right and causes[0].line == at - first + 1:
            confused.append((log.name, log.rule, causes[0].rule, lines[at]))
    assert confused == []


def test_a_sentence_is_whole_without_what_a_pattern_does_not_capture():
    cut = []
    for rule in bundled()[0]:
        near = {*compiled(rule.near).groupindex} if rule.near else set()
        for pattern in rule.patterns:
            missing = {*FIELD.findall(rule.cause)} - {*compiled(pattern).groupindex} - near - ADDED
            cut += [(rule.id, name) for name in OPEN.findall(rule.cause) if name in missing]
            if any(rule.cause.startswith(f"{{{name}}}") for name in missing):
                cut.append((rule.id, rule.cause))
    assert cut == []


CGROUP = "docker: Error response from daemon: [8] System error: write /sys/fs/cgroup/cpuset/a.scope/cgroup.procs: "
APART = {
    'a.cu(58): error: identifier "__shfl_down_sync" is undefined': "warp-sync-before-cuda-9",
    'a.cu(58): error: identifier "__shfl_down" is undefined': "warp-without-sync",
    f"{CGROUP}no space left on device": "cgroup-full",
    'runc create: process_linux.go:258: applying cgroup configuration for process caused "mkdir '
    '/sys/fs/cgroup/memory/d7581e52: no space left on device"': "cgroup-full",
    "tar: /src/cgroup.h: Cannot write: No space left on device": "disk-full",
    "ptxas fatal   : Value 'sm_86' is not defined for option 'gpu-name'": "ptxas-arch-unknown",
    "nvcc fatal   : Value 'sm_86' is not defined for option 'gpu-architecture'": "nvcc-arch-unsupported",
    "RuntimeError: FlashAttention is only supported on CUDA 11.7 and above.  Note: make sure nvcc has a supported "
    "version by running nvcc -V.": "flash-attn-cuda-too-old",
    "RuntimeError: FlashAttention only supports Ampere GPUs or newer.": "flash-attn-gpu",
    "ERROR: failed to solve: nvidia/cuda:9.2-devel-ubuntu18.04: docker.io/nvidia/cuda:9.2-devel-ubuntu18.04: not "
    "found": "docker-manifest-unknown",
    "#3 ERROR: docker.io/nvidia/cuda:9.2-devel-ubuntu18.04: not found": "docker-manifest-unknown",
}


@pytest.mark.parametrize("text", APART, ids=APART.get)
def test_messages_that_look_alike_have_causes_of_their_own(text: str):
    assert explained(f"{text}\n").causes[0].rule == APART[text]


@pytest.mark.parametrize(
    "line",
    [
        "2024-05-02 10:11:12.120341: E external/local_xla/cuda_dnn.cc:9261] Unable to register cuDNN factory: "
        "Attempting to register factory for plugin cuDNN when one has already been registered",
        "dpkg-preconfigure: unable to re-open stdin: No such file or directory",
        "invoke-rc.d: could not determine current runlevel",
    ],
)
def test_harmless_lines_are_no_failure(line: str):
    assert explained(f"{line}\n").success


OWN = {
    "error: featgraph has no variant 'gpu'; did you mean cpu? (recipes/featgraph.yaml)\nhint: variants: cpu, cuda\n": (
        "has no variant 'gpu'; did you mean cpu?",
        "variants: cpu, cuda",
    ),
    "error: paper is missing (recipes/mine.yaml:1)\n": ("paper is missing (recipes/mine.yaml:1)", "correct"),
    "error: block make of mk:cpu failed: exit code 2\ncause: the linker finds no library openblas\n"
    "remedy: add libopenblas-dev to `packages`\n": ("finds no library openblas", "add libopenblas-dev"),
    "error    cuda=11.3 \N{MULTIPLICATION SIGN} gpu=capability 9.0 (sm_90)\n"
    "         nvcc of CUDA 11.3 supports GPUs up to sm_86; sm_90 needs\n           CUDA 11.8 [2 sources]\n"
    "         nearest: cuda=11.8\n": ("gpu=capability 9.0 (sm_90): nvcc of CUDA 11.3", "cuda=11.8"),
    "error: ubuntu:20.04: no connection to registry.example\nhint: a mirror: `mirrors:` of the configuration\n": (
        "no connection to registry.example",
        "mirrors:",
    ),
}


@pytest.mark.parametrize("text", OWN)
def test_an_error_of_reprokit_is_its_own_cause_and_its_hint_the_remedy(text: str):
    cause = explained(text).causes[0]
    assert cause.rule.startswith("reprokit-") and OWN[text][0] in cause.cause and OWN[text][1] in cause.remedy


NOT_FINITE = {
    "epoch 1 loss: 0.4\nepoch 2 loss: nan\nepoch 3 loss: nan\nTraining complete\nSaved model to out.pt\n": 2,
    "{'loss': 1.2, 'grad_norm': 3.1}\n{'loss': nan, 'grad_norm': nan, 'epoch': 0.1}\n": 2,
    "100%|####| 10/10 [00:01, 9.1it/s, loss=inf]\n": 1,
    "INFO: step 3 loss: nan\nINFO: done\n": 1,
    "Epoch 1/5 - loss: nan - accuracy: 0.1\n": 1,
}


@pytest.mark.parametrize("text", NOT_FINITE, ids=range(len(NOT_FINITE)))
def test_a_loss_that_is_not_finite_is_a_failure_whatever_follows(text: str):
    found = explained(text)
    assert found.success is False and (found.causes[0].rule, found.causes[0].line) == (
        "loss-not-finite",
        NOT_FINITE[text],
    )
    assert found.family == "code"


@pytest.mark.parametrize(
    "text",
    [
        "best loss: inf\nepoch 1 loss 0.5\ndone.\n",
        "Validation loss decreased (inf --> 0.693).  Saving model ...\nepoch 2 loss 0.5 acc 0.9\n",
        "log level: INFO loss: info\nepoch 1 loss: 0.5\ndone.\n",
        "max error 0.001 < 0.01\ndone.\n",
    ],
)
def test_a_loss_that_begins_at_infinity_is_no_failure(text: str):
    assert explained(text).success


@pytest.mark.parametrize("line", ["max error 0.3 > 0.01", "FAILED: mismatch", "Mismatched elements: 1 / 3 (33.3%)"])
def test_a_result_beyond_its_tolerance_is_a_failure_whatever_follows(line: str):
    assert explained(f"{line}\ndone.\n").causes[0].rule == "results-beyond-tolerance"


SECTIONS = """\
=================================== FAILURES ===================================
_________________________________ test_matmul __________________________________

    def test_matmul():
>       assert 1 == 2
E       assert 1 == 2

tests/test_a.py:5: AssertionError
__________________________________ test_conv ___________________________________

    def test_conv():
>       raise OddFlux("odd")
E       test_a.OddFlux: odd

tests/test_a.py:9: OddFlux
"""
REPORTS = {
    "FAILED tests/test_a.py::test_matmul - assert 1 == 2\nFAILED tests/test_a.py::test_conv - test_a.OddFlux: odd\n"
    "========================= 2 failed, 1 passed in 0.05s ==========================\n": (
        "the test tests/test_a.py::test_matmul failed: assert 1 == 2"
    ),
    f"{SECTIONS}=========================== short test summary info ============================\n"
    "FAILED tests/test_a.py::test_matmul - assert 1 == 2\nFAILED tests/test_a.py::test_conv - test_a.OddFlux: odd\n"
    "========================= 2 failed, 1 passed in 0.05s ==========================\n": (
        "the test test_matmul failed: assert 1 == 2"
    ),
    f"{SECTIONS}========================= 2 failed, 1 passed in 0.05s =========================\n": (
        "the test test_matmul failed: assert 1 == 2"
    ),
    "FAIL: test_sum (test_kernel.KernelTest)\n" + "-" * 70 + "\nTraceback (most recent call last):\n"
    '  File "/src/test_kernel.py", line 7, in test_sum\n    self.assertEqual(1, 2)\nAssertionError: 1 != 2\n\n'
    "Ran 2 tests in 0.001s\n\nFAILED (failures=1)\n": (
        "the test test_sum (test_kernel.KernelTest) failed: AssertionError: 1 != 2"
    ),
    "1/3 Test #1: relu .............................   Passed    0.01 sec\n    Start 2: conv\n"
    "2/3 Test #2: conv .............................***Failed    0.02 sec\nwrong value at 3\n\n    Start 3: pool\n"
    "3/3 Test #3: pool .............................***Failed    0.02 sec\n\n"
    "33% tests passed, 2 tests failed out of 3\n\nThe following tests FAILED:\n\t  2 - conv (Failed)\n"
    "Errors while running CTest\n": "the test conv failed (Failed): wrong value at 3",
    "[ RUN      ] Conv.Relu\n[       OK ] Conv.Relu (0 ms)\n[ RUN      ] Conv.Forward\n/src/conv_test.cc:12: Failure\n"
    "Expected equality of these values:\n  out[0]\n    Which is: 3\n  4\n[  FAILED  ] Conv.Forward (0 ms)\n"
    "[ RUN      ] Conv.Back\n/src/conv_test.cc:22: Failure\nValue of: ok\n[  FAILED  ] Conv.Back (0 ms)\n"
    "[  PASSED  ] 1 test.\n[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] Conv.Forward\n": (
        "the test Conv.Forward failed at /src/conv_test.cc:12: Expected equality of these values: out[0] Which is: 3 4"
    ),
}


@pytest.mark.parametrize(
    "text", REPORTS, ids=["pytest's summary", "pytest", "pytest without a summary", "unittest", "ctest", "gtest"]
)
def test_the_first_failing_test_is_the_cause(text: str):
    found = explained(text)
    assert found.causes[0].cause.startswith(REPORTS[text])
