"""What an explanation has beside its causes: how sure it is, versions, advice, a search, the nearest thread."""

from __future__ import annotations

import io

import pytest

from reprokit.explain import last
from reprokit.explain.advice import query
from reprokit.explain.judge import explain
from reprokit.explain.last import good_lines, keep_success
from reprokit.explain.load import matcher
from reprokit.explain.remedy import Subject
from reprokit.explain.versions import SeenVersion, unfit, versions
from tests.support import logs
from tests.support.builds import target_of

UNKNOWN = "step 1\nthe flux cannot be aligned\n"


def test_a_rule_and_the_index_make_an_answer_sure():
    (cause,) = explain(logs.stream("E: Unable to locate package llvm-10-dev\n")).causes
    assert cause.sure and not cause.sentence.startswith("perhaps") and cause.measured_on > 50
    other = explain(logs.stream("[INFO] Querying registry\n[ERROR] flux is odd\n")).causes[0]
    assert not other.sure


def test_what_no_rule_knows_is_no_failure_without_another_sign():
    assert explain(logs.stream(UNKNOWN)).success is None
    assert explain(logs.stream(UNKNOWN), failed=True).success is False
    assert explain(logs.stream(f"{UNKNOWN}make: *** [all] Error 2\n")).success is False


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("using /usr/lib/python3.8/site.py with torch-1.13.1-cp38-cp38.whl", "python 3.8, torch 1.13.1"),
        ("-- The CXX compiler identification is GNU 9.4.0; nvcc release 11.8, V11.8.89", "gcc 9.4.0, cuda 11.8"),
        ("torch==2.1.0+cu118 on x86_64", "torch 2.1.0, cuda 11.8, machine x86_64"),
        ("Driver Version: 525.85.12   CUDA Version: 12.0", "driver 525.85.12, cuda 12.0"),
        ("Python 3.8 and then Python 3.8.10, Python 3.11 and Python 3.12", "python 3.8.10, python 3.11"),
        ("a version of 3.11 in libfoo.so.3.8, /opt/my-cuda-11", ""),
    ],
)
def test_versions_that_a_log_names(line: str, seen: str):
    assert ", ".join(f"{each.name} {each.value}" for each in versions(line.encode(), 1)) == seen


def test_versions_are_compared_with_one_another_and_with_the_recipe():
    seen = [SeenVersion("cuda", "11.2", 1), SeenVersion("gcc", "12.2.0", 2)]
    (problem,) = unfit(seen)
    assert problem.startswith("cuda 11.2 and gcc 12.2.0: ") or problem.startswith("gcc 12.2.0 and cuda 11.2: ")
    (differs,) = unfit(seen[:1], {"cuda": "11.8", "python": "3.8"})
    assert differs == "the recipe pins cuda 11.8, the log has cuda 11.2 (line 1)"
    assert unfit(seen[:1], {"cuda": "11"}) == []


def test_advice_of_the_log_is_quoted_with_its_line():
    text = "error: odd flux\nnote: it is odd\nPlease set FLUX_HOME to the folder of flux.\nexit 3\n"
    assert explain(logs.stream(text)).advice == [(3, "Please set FLUX_HOME to the folder of flux.")]


def test_a_search_holds_nothing_of_the_users_own():
    text = "[12:03:04] /home/me/secret/a.py:31: error: cannot open 'https://me:pw@host/x' at 0x7f3e0012 (3.2 GB)"
    assert query(text) == "error cannot open at"


def test_a_measured_log_does_not_find_its_own_line():
    text = "ModuleNotFoundError: No module named 'sklearn_extra'"
    own, other = matcher().index.nearest(text)[0], matcher().index.nearest(text, "provoked here")[0]
    assert own.similarity > other.similarity and own.source == ""


def test_the_nearest_thread_is_another_line_with_an_address():
    index = matcher().index
    (nearest, *_) = index.nearest("/usr/bin/ld: cannot find -lopenblas")
    assert nearest.rule == "ld-cannot-find" and nearest.source.startswith("https://")
    assert nearest.source not in {each.source for each in index.nearest("ld: cannot find -lopenblas", nearest.source)}
    assert index.nearest("") == [] == index.nearest("qqxyz 12 34")


@pytest.fixture
def subject(monkeypatch, tmp_path) -> Subject:
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    return Subject(target_of("odd"))


def test_what_the_last_success_printed_too_is_no_cause(subject):
    warned = b"ld: warning: cannot find -lodd\nE: Unable to locate package odd7\nx: Permission denied\n"
    keep_success(warned + b"built in 3.1 s\n", subject)
    log = warned.replace(b"odd7", b"odd8") + b"flux 0x7f12 is strange today\nsegmenting fluxes\n"
    assert explain(io.BytesIO(log), failed=True).causes[0].is_known
    found = explain(io.BytesIO(log), failed=True, good=good_lines(subject))
    assert not found.causes[0].is_known and found.new == (4, "flux 0x7f12 is strange today")
    assert not good_lines(Subject(target_of("other"))) and not good_lines(None)


def test_lines_of_successes_are_private_bounded_and_few(subject, monkeypatch, tmp_path):
    monkeypatch.setattr(last, "_MOST_GOOD", 2)
    monkeypatch.setattr(last, "_MOST_GOOD_BYTES", 20)
    for name in ("a", "b", "odd"):
        keep_success(b"begin 1\n" + b"x\n" * 100 + b"begin 2\n", Subject(target_of(name)))
    keep_success(b"new\n" + b"y" * 12, subject)
    assert good_lines(subject) == {b"new", b"yyyyyyyyyyyy"}
    kept = [*(tmp_path / "home" / "state" / "successes").iterdir()]
    assert len(kept) == 2 and all(file.stat().st_mode & 0o77 == 0 for file in kept)
