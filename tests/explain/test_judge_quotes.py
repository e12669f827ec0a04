"""What a cause says beside the quoted line: what a status code means, and the lines on which a message goes on."""

from __future__ import annotations

import pytest
import yaml

from reprokit.explain.judge import explain
from reprokit.explain.load import FOLDER, status, statuses
from tests.support import logs

_ENDED = "terminate called after throwing an instance of 'odd::Flux'\n"


@pytest.mark.parametrize("form", sorted(logs.FORMS))
def test_a_status_code_is_given_with_its_meaning(form: str):
    line = "flux.cc:93: Check failed: e == cudaErrorCudartUnloading: CUDA: cudaErrorInvalidDevice\n"
    cause = explain(logs.stream(logs.FORMS[form](line))).causes[0]
    assert "cudaErrorInvalidDevice means: no GPU of that number is visible" in cause.cause


def test_a_status_code_in_an_unknown_error_is_given_with_its_meaning():
    cause = explain(logs.stream("fluxtool: error: CURAND_STATUS_PREEXISTING_FAILURE in step 3\n")).causes[0]
    assert cause.cause.endswith("CURAND_STATUS_PREEXISTING_FAILURE means: an earlier kernel crashed")


def test_a_status_is_a_whole_word():
    assert status("CUBLAS_STATUS_NOT_SUPPORTED_FLUX") is None
    assert status("CUBLAS_STATUS_NOT_SUPPORTED: flux")[0] == "CUBLAS_STATUS_NOT_SUPPORTED"


def test_each_status_and_each_meaning_is_listed_once():
    entries = yaml.safe_load((FOLDER / "statuses.yaml").read_text())
    names = [name for entry in entries for name in entry["names"]]
    assert sorted(names) == sorted(statuses())
    assert len({entry["means"] for entry in entries}) == len(entries)


def test_a_cause_says_once_what_its_status_means():
    line = "RuntimeError: CUDA runtime error: CUBLAS_STATUS_INVALID_VALUE flux.h:3\n"
    (cause, *_) = explain(logs.stream(line)).causes
    assert cause.cause.count("does not fit") == cause.cause.count("another cuBLAS") == 1


def test_an_exact_rule_needs_no_meaning_of_its_code():
    assert "means:" not in explain(logs.stream("RuntimeError: CUDA error: invalid device ordinal\n")).causes[0].cause


def test_an_error_stands_above_a_warning_of_the_same():
    warning = (
        "setup.py:78: UserWarning: flux was requested, but nvcc was not found.  "
        "Are you sure your environment has nvcc available?\n"
    )
    error = "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.\n"
    cause = explain(logs.stream(warning + "  warnings.warn(\n" + error)).causes[0]
    assert (cause.rule, cause.line) == ("cuda-home-unset", 3)


def test_an_exception_stands_above_the_source_line_that_raises_it():
    said = "Ninja is required to load C++ extensions"
    text = f'Traceback (most recent call last):\n  File "a.py", line 1\n    raise RuntimeError("{said}")\n'
    assert explain(logs.stream(text + f"RuntimeError: {said}\n")).causes[0].line == 4


@pytest.mark.parametrize("form", sorted(logs.FORMS))
def test_the_cause_of_an_exception_of_cpp_is_at_its_reason(form: str):
    text = f"{_ENDED}  what():  flux at graph.cc:3\nAborted (core dumped)\n"
    cause = explain(logs.stream(logs.FORMS[form](text))).causes[0]
    assert (cause.line, cause.cause) == (2, "a C++ program ended by an exception odd::Flux: flux at graph.cc:3")


def test_the_reason_of_a_cpp_exception_goes_on_below():
    text = f"{_ENDED}  what():  Bug at graph.cc:3\n the flux is odd\nAborted\n"
    assert explain(logs.stream(text)).causes[0].cause.endswith("odd::Flux: Bug at graph.cc:3 the flux is odd")


def test_an_unknown_error_is_judged_with_the_reason_that_it_announces():
    cause = explain(logs.stream("Error at graph.cc:3 in flux:\nthe file does not exist\n")).causes[0]
    assert cause.cause.startswith("the program says that something is missing: at graph.cc:3 in flux:")


@pytest.mark.parametrize(
    "ignored",
    [
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    go()\nAssertionError: only a child may\n',
        "TypeError: 'NoneType' object is not callable\n",
    ],
)
def test_an_exception_that_python_ignores_accuses_nobody(ignored: str):
    assert explain(logs.stream(f"test acc 0.81\nException ignored in: <function A.__del__ at 0x7f>\n{ignored}")).success
    assert not explain(logs.stream(f"test acc 0.81\n{ignored}")).success


def test_a_crash_of_python_names_the_function_it_was_in():
    text = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x7f75 (most recent call first):\n"
    cause = explain(logs.stream(text + '  File "/x/oddlib/max.py", line 13 in flux\nSegmentation fault\n')).causes[0]
    assert cause.cause.startswith("Python crashed (Segmentation fault) in flux (/x/oddlib/max.py, line 13)")


def test_what_a_warning_told_is_kept_for_the_error_of_the_same():
    warning = "UserWarning: X with CUDA capability sm_86 is not compatible with the current PyTorch installation.\n"
    error = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    cause = explain(logs.stream(warning + "step\n" * 70 + error)).causes[0]
    assert (cause.line, cause.recipe_change[0]["value"]) == (72, "11.1")


def test_a_call_of_cuda_with_a_wrong_argument_is_not_called_a_want_of_memory():
    cause = explain(logs.stream("RuntimeError: CUDA error: invalid argument\n")).causes[0].cause
    assert "memory is full" not in cause and "means: an argument of the call is wrong" in cause


@pytest.mark.parametrize("opening", ["'", "`", '"', "\N{LEFT SINGLE QUOTATION MARK}"])
def test_a_message_is_known_in_any_quotes(opening: str):
    closing = {"`": "'", "\N{LEFT SINGLE QUOTATION MARK}": "\N{RIGHT SINGLE QUOTATION MARK}"}.get(opening, opening)
    for name, rule in (("h5py", "missing-python-package"), ("sklearn", "opencv-numpy-cv2")):
        for both in (closing, opening):
            text = f"ModuleNotFoundError: No module named {opening}{name}{both}\n"
            assert explain(logs.stream(text)).causes[0].rule == rule, text


@pytest.mark.parametrize("line", ["No module named h5py  ", "ImportError: No module named 'h5py'\t"])
def test_blanks_at_the_end_of_a_line_hide_no_cause(line: str):
    cause = explain(logs.stream(f"[ImportError]     \n{line}\n")).causes[0]
    assert (cause.rule, cause.line) == ("missing-python-package", 2)
