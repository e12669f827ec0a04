"""The first cause, not the last consequence; and no accusation of a success."""

from __future__ import annotations

import pytest

from reprokit.explain.judge import explain
from reprokit.explain.load import bundled
from reprokit.explain.model import Explanation
from tests.support import logs


def explained(text: str, failed: bool | None = None) -> Explanation:
    return explain(logs.stream(text), failed)


def test_every_rule_explains_its_example_first():
    """So that no other rule stands above it there."""
    others = {}
    for rule in bundled()[0]:
        first = [cause.rule for cause in explained(rule.example).causes][:1]
        if first != [rule.id]:
            others[rule.id] = first
    assert others == {}


@pytest.mark.parametrize("form", sorted(logs.FORMS))
def test_every_form_of_a_log_gives_the_same_cause_and_line(form: str):
    text = logs.noise("compile") + (
        "[ 83%] Building CUDA object a.cu.o\n[ 84%] Building CXX object b.cc.o\n"
        "/src/b.cc:9:10: fatal error: cudnn.h: No such file or directory\n"
        "    9 | #include <cudnn.h>\ncompilation terminated.\n[ 85%] Built target c\n"
        "make[2]: *** [CMakeFiles/b.dir/build.make:90: b.cc.o] Error 1\nmake: *** [Makefile:136: all] Error 2\n"
    )
    first, *others = explain(logs.stream(logs.FORMS[form](text))).causes
    assert (first.rule, first.line) == ("cudnn-header", 403)
    assert "fatal error: cudnn.h: No such file or directory" in first.text
    assert [cause.rule for cause in others] == ["build-command-failed"]


def test_the_first_of_chained_exceptions_is_the_cause():
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    d[7]\nKeyError: 7\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nOddFlux: cannot go on\n'
    )
    (cause,) = explained(text).causes
    assert (cause.rule, cause.line) == ("python-exception", 4)
    assert "KeyError, a dictionary" in cause.cause
    assert "(a.py, line 1: d[7]) and then OddFlux: cannot go on" in cause.cause
    assert cause.confidence < 0.5


@pytest.mark.parametrize("form", sorted(logs.FORMS))
def test_an_exception_of_any_class_is_found_below_its_traceback(form: str):
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 3, in go\n    raise OddFlux(3)\n'
        "flux.errors.OddFlux: three is odd\nlast words\n"
    )
    cause = explain(logs.stream(logs.FORMS[form](text))).causes[0]
    assert (cause.rule, cause.line) == ("python-exception", 4)
    assert "flux.errors.OddFlux: three is odd (a.py, line 3: raise OddFlux(3))" in cause.cause


def test_an_ignored_exception_ends_nothing():
    text = 'Exception ignored in: <function A.__del__>\nTraceback (most recent call last):\n  File "a.py", line 1\n'
    assert explained(text + "OddFlux: three is odd\n").success


def test_of_two_tracebacks_far_apart_the_last_ended_the_program():
    first = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n{}: odd\n'
    found = explained(first.format("EarlyFlux") + "step\n" * 100 + first.format("LateFlux"))
    assert [cause.line for cause in found.causes] == [106]


def test_a_cause_without_captured_values_quotes_the_line():
    (cause, *_) = explained("OSError: [Errno 98] Address already in use\n").causes
    assert cause.cause == 'another program listens on that port ("OSError: [Errno 98] Address already in use")'


def test_usual_words_count_where_the_log_ends():
    text = "Error: the old model does not exist\n" + "step\n" * 100 + "Error: the new model does not exist\n"
    assert explained(text).causes[0].line == 102


def test_a_line_that_a_symptom_knows_is_no_cause_by_its_words():
    text = "srun: error: node1: task 0: Exited with exit code 1\nerror: odd flux\n"
    assert [cause.rule for cause in explained(text).causes] == ["unexplained", "slurm-step-exit"]


def test_what_no_rule_knows_is_quoted():
    (cause,) = explained("error: odd flux of x\n").causes
    assert cause.rule == "unexplained"
    assert cause.cause.endswith("says: error: odd flux of x")


def test_what_was_survived_ranks_below_what_came_after():
    text = (
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'ReadTimeoutError': /simple/torch/\n"
        "Successfully installed torch-2.0.1\n" + "step\n" * 5 + "RuntimeError: Bool type is not supported by dlpack\n"
    )
    causes = explained(text).causes
    assert causes[0].rule == "dgl-bool-dlpack"
    assert causes[-1].rule == "pip-network"


def test_of_two_errors_that_a_retry_survived_the_first_is_the_cause():
    twice = "Host key verification failed.\ngit@forge.test: Permission denied (publickey).\n"
    text = f"{twice}Failed to clone 'x'. Retry scheduled\nFailed to clone 'x' a second time, aborting\n"
    first, *_ = explained(text).causes
    assert (first.rule, first.line) == ("ssh-host-key", 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "-- Looking for cuda.h - not found\n[100%] Built target x\n",
        "make: [Makefile:3: clean] Error 1 (ignored)\ndone.\n",
        "tests/test_errors.py::test_error PASSED\n===== 3 passed, 1 xfailed in 0.1s =====\n",
        "fatal: not a git repository (or any parent): .git\n-- Build files have been written to: /src/b\n",
        "Traceback (most recent call last):\nKeyError: 1\ncached\nSuccessfully installed x-1\n",
    ],
)
def test_a_success_is_not_accused(text: str):
    assert explained(text) == Explanation(True, [])


@pytest.mark.parametrize(
    "text",
    [
        "FAIL : libnvinfer.so.8: cannot open shared object file\nFalling back to ['CPUExecutionProvider']\nRunning.\n",
        "libfoo.so.1: cannot open shared object file: No such file or directory\nEpoch 2/2 - 3s - loss: 0.11\n",
        "error: dial tcp 127.0.0.1:1: connect: connection refused\n--- PASS: TestDialError (0.00s)\n",
        "terminate called after throwing an instance of 'E'\n  what():  meant\n[       OK ] Error.Throws (3 ms)\n",
        "rm: cannot remove 'lib/a.o': No such file or directory\nmake: [Makefile:12: clean] Error 1 (ignored)\n",
    ],
)
def test_what_a_tool_goes_on_after_is_no_failure(text: str):
    assert explained(text).success


def test_a_fallback_ranks_below_the_failure_after_it():
    text = (
        "ImportError: libnvinfer.so.8: cannot open shared object file\nfalling back to CUDA\n"
        + "step\n" * 20
        + "RuntimeError: No CUDA GPUs are available\n"
    )
    assert [cause.rule for cause in explained(text).causes] == ["gpu-no-devices", "shared-library-missing"]


def test_a_warning_ranks_below_the_error_after_it():
    text = "WARNING: cannot open shared library: libfoo.so: cannot open shared object file\nFailed to align the flux\n"
    assert [cause.rule for cause in explained(text).causes] == ["says-failed", "shared-library-missing"]


def test_a_retried_error_is_the_cause_where_nothing_else_failed():
    text = "fatal: early EOF\nFailed to clone 'x'. Retry scheduled\nFailed to clone 'x' a second time, aborting\n"
    assert explained(text).causes[0].line == 1


@pytest.mark.parametrize(
    "before",
    [
        "(EngineCore_DP0 pid=17374) ERROR 09-28 15:47:24 [core.py:718] ",
        "[rank2]: ",
        "[1,0]<stderr>: ",
        "runtime-1        | ",
        "  | (EngineCore_DP0 pid=6804) ",
        "      ",
        "  >> 462    ",
        "slurmstepd: error: pyxis:     ",
        "2018/12/20 08:48:07 ",
        'time="2021-12-08T22:22:17Z" level=error msg="',
    ],
)
def test_what_loggers_and_launchers_put_before_a_line_hides_no_error(before: str):
    (cause,) = explained(f"step 1\n{before}QuaintError: the flux is odd\nstep 2\n").causes
    assert (cause.rule, cause.line, cause.text.partition('"')[0]) == ("unexplained", 2, "QuaintError: the flux is odd")


def test_usual_words_of_errors_rank_below_what_a_rule_knows():
    text = "Error: the model path does not exist: /m\nSegmentation fault (core dumped)\n"
    found = explained(text).causes
    assert [cause.rule for cause in found[:2]] == ["segfault", "says-missing"]
    assert "does not exist: /m" in found[1].cause


def test_of_two_rules_that_know_a_line_the_longer_match_stands():
    (cause, *_) = explained("/bin/sh: 1: /usr/local/cuda-11.1/lib64:/bin/nvcc: not found\n").causes
    assert cause.rule == "cuda-home-is-list"


def test_progress_of_others_hides_no_failure():
    """In parallel builds, and where the end of the log is missing."""
    text = "b.cc:9:10: fatal error: cudnn.h: No such file or directory\n[ 85%] Built target c\n[7/9] Linking CXX d\n"
    assert explained(text).causes[0].rule == "cudnn-header"


def test_a_cause_long_before_the_end_was_survived():
    text = "Failed to initialize NVML: Unknown Error\n" + "step done\n" * 6000
    assert explained(text).success
    assert not explained(text + "make: *** [all] Error 2\n").success


def test_a_package_that_could_not_be_fetched_is_no_missing_package():
    text = (
        "Err:1 http://archive.example/ubuntu focal InRelease\n  Temporary failure resolving 'archive.example'\n"
        "E: Unable to locate package git\n"
    )
    assert explained(text).causes[0].rule == "apt-unreachable"


def test_how_the_command_ended_decides_where_it_is_known():
    assert explained("error: x\n", failed=False).success
    (cause,) = explained("some words\nlast words\n\n", failed=True).causes
    assert (cause.rule, cause.line, cause.text) == ("unexplained", 2, "last words")
    assert not explained("", failed=True).success


def test_captured_values_stand_in_cause_remedy_and_change():
    (cause, *_) = explained(
        "x.h:138:2: error: #error -- unsupported GNU version! gcc versions later than 11 are not supported!"
    ).causes
    assert "at most gcc 11" in cause.cause
    assert "g++-11" in cause.remedy
    assert cause.as_json()["recipe_change"] == [{"op": "replace", "path": "/variants/*/pins/gcc", "value": "11"}]


def test_a_change_whose_value_was_not_captured_is_left_out():
    (cause, *_) = explained("error: #error -- unsupported GNU version!").causes
    assert cause.recipe_change == []


def test_the_oldest_cuda_for_a_gpu_comes_from_the_facts():
    text = (
        "NVIDIA GeForce RTX 4080 with CUDA capability sm_89 is not compatible with the current PyTorch installation.\n"
        "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    )
    (cause, *_) = explained(text).causes
    assert cause.recipe_change[0]["value"] == "11.8"


def test_mangled_names_are_shown_as_their_author_wrote_them():
    text = "ImportError: m.so: undefined symbol: _Z33cublas_tensor_core_matmul_cuda_4dN2at6TensorES0_"
    (cause, *_) = explained(text).causes
    assert "cublas_tensor_core_matmul_cuda_4d(at::Tensor, at::Tensor)" in cause.cause


def test_json_has_the_promised_keys():
    found = explained("E: Unable to locate package llvm-10-dev\n").as_json()
    assert set(found) == {"success", "causes"}
    assert set(found["causes"][0]) == {"rule", "line", "text", "cause", "remedy", "recipe_change", "confidence"}
    assert found["success"] is False
    assert found["causes"][0]["line"] == 1


def test_the_last_words_of_an_unknown_program_are_its_failure():
    (cause,) = explained("Files to fetch: 4\n=== PROBLEM ===\nNot enough flux (10 % are kept)\nRequired: 5 GB\n").causes
    assert (cause.rule, cause.line) == ("says-no-resources", 3)
    assert "Not enough flux" in cause.cause


@pytest.mark.parametrize(
    "after", ["done in 3 s", "Epoch 1/2 accuracy: 0.9", "falling back to the CPU", "upload succeeded"]
)
def test_last_words_that_something_follows_are_no_failure(after: str):
    assert explained(f"the flux cannot be aligned\n{after}\n").success


def test_an_error_that_no_rule_knows_has_the_meaning_of_its_words():
    (cause,) = explained("ERROR  : the flux capacitor is not installed\n").causes
    assert cause.cause.startswith("the program says that something is missing: ")


def test_an_exception_names_the_users_own_frame_too():
    (cause,) = explained(
        'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    go(cfg)\n'
        '  File "/env/lib/python3.9/site-packages/flux/core.py", line 8, in go\n    raise OddFlux(3)\nOddFlux: odd\n'
    ).causes
    assert "core.py, line 8: raise OddFlux(3), called from train.py, line 3: go(cfg))" in cause.cause


def test_numbers_that_spack_puts_before_lines_hide_no_context():
    text = (
        '  >> 4    CMake Error at x.cmake:61 (set_target_properties):\n     5      The link interface of target "a" '
        "contains:\n     6    \n     7        CUDA::cupti\n     8    \n     9      but the target was not found.\n"
    )
    assert "needs the CMake target CUDA::cupti" in explained(text).causes[0].cause


def test_an_error_just_before_an_exception_comes_first():
    text = "E0911 06:19:37.20 3746 a.cpp:70] Failed to open the flux\n" + (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nOddFlux: cannot go on\n'
    )
    assert [cause.line for cause in explained(text).causes] == [1, 4]
