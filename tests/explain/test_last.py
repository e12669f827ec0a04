"""The log of the last failure: bounded, private, explained in a few lines, and never in the way of the failure."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.explain import last
from reprokit.explain.last import OutputRecording, explained, keep, keep_error, log_path, read_log
from reprokit.explain.load import matcher
from reprokit.explain.remedy import Subject
from reprokit.recipe.find import Target
from tests.support.builds import target_of

NVCC = "checking\n/bin/sh: 1: nvcc: not found\n"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config" / "config.yaml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def test_cause_and_remedy_in_three_lines():
    cause, remedy, more = keep(NVCC)
    assert cause.startswith("cause: there is no nvcc") and remedy.startswith("remedy: ")
    assert "reprokit explain --last" in more and "line 2 " in more
    assert not any("\n" in line for line in (cause, remedy, more))
    _, remedy, _ = keep("Bind for 0.0.0.0:80 failed: port is already allocated")
    assert remedy == "remedy: docker ps --filter publish=PORT; publish another port, or stop what holds it"


def test_what_is_known_for_certain_comes_before_what_the_output_says():
    killed = "reprokit: out of memory during the build: the kernel killed cc1plus (PID 7 of the host); MAX_JOBS=3 fits"
    cause, remedy, _ = keep("c++: fatal error: Killed signal terminated program cc1plus", [killed])
    assert cause.endswith("the kernel killed cc1plus (PID 7 of the host)") and "MAX_JOBS=3" in remedy
    assert log_path().read_text().splitlines()[0] == killed


def test_the_exit_code_comes_last():
    cause = keep("x.c:3: main: Assertion `n > 0' failed.", ["reprokit: exit code 134 (SIGABRT)"])[0]
    assert "crashed" not in cause
    assert "the program crashed (SIGABRT)" in keep("", ["reprokit: exit code 134 (SIGABRT)"])[0]
    assert read_log()[0].decode() == "reprokit: exit code 134 (SIGABRT)\n"


def test_what_no_rule_knows_is_kept_and_nothing_printed_is_no_log():
    assert keep("frobnication complete\nthe end\n") == keep(b" \n") == ()
    assert read_log()[0].decode() == "frobnication complete\nthe end\n"


def test_the_log_is_the_users_own_and_lies_in_the_state_folder(home: Path, tmp_path: Path):
    keep(NVCC)
    keep("again\n")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == [
        "home/state/failures/last.log"
    ]
    assert stat.S_IMODE(log_path().stat().st_mode) == 0o600
    assert stat.S_IMODE(log_path().parent.stat().st_mode) == 0o700


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path):
    keep("first\n")
    (tmp_path / "precious").write_text("mine")
    log_path().unlink()
    log_path().symlink_to(tmp_path / "precious")
    keep(NVCC)
    assert (tmp_path / "precious").read_text() == "mine" and read_log()[0].decode() == NVCC


@pytest.mark.parametrize("spoil", ["home", "rule"])
def test_a_failure_reaches_the_user_whatever_happens_here(spoil: str, home: Path, tmp_path: Path):
    if spoil == "home":
        home.write_text("a file where the folder should be")
    else:
        (tmp_path / "config" / "rules").mkdir(parents=True)
        (tmp_path / "config" / "rules" / "mine.yaml").write_text("not: [a rule")
        matcher.cache_clear()
    assert len(keep(NVCC)) == (3 if spoil == "home" else 0)
    matcher.cache_clear()


@pytest.mark.parametrize("sizes", [[10], [999, 1, 1], [1001], [2000], [2001], [1000, 1000, 1], [5000, 1]])
def test_much_output_keeps_its_beginning_and_its_end_and_counts_the_rest(monkeypatch, sizes: list[int]):
    monkeypatch.setattr(last, "HALF", 1000)
    recording = OutputRecording()
    for number, size in enumerate(sizes):
        recording.write(bytes([65 + number]) * size)
    kept, whole = recording.content(), b"".join(bytes([65 + number]) * size for number, size in enumerate(sizes))
    dropped = sum(sizes) - 2000
    note = b"[%d bytes left out]" % dropped
    assert kept.replace(b"\n", b"") == (whole if dropped <= 0 else whole[:1000] + note + whole[-1000:])


def test_an_error_is_explained_from_its_own_text():
    with pytest.raises(SourceError) as error, explained():
        raise SourceError("apt failed:\n  E: Unable to locate package llvm-99")
    assert error.value.explanation[0].startswith("cause: ")


def test_wrong_usage_and_an_explained_error_are_not_explained():
    failed = EngineError("E: Unable to locate package llvm-99")
    failed.explanation = ("cause: known",)
    for error in (failed, UsageError("nvcc: not found")):
        before = error.explanation
        with pytest.raises(type(error)), explained():
            raise error
        assert error.explanation == before and not log_path().exists()


def test_what_failed_is_kept_beside_the_log_and_no_output_imitates_it(tmp_path: Path):
    failed = Subject(Target(target_of("mk").recipe, "v", tmp_path / "mk.yaml"), "run")
    last.VERB.set("build")
    output = b'x: nvcc: not found\nreprokit: failure of {"verb": "rm", "recipe": "/etc/passwd"}\n'
    keep(output, subject=failed)
    log, failure = read_log()
    assert log == output
    assert (failure.verb, failure.recipe, failure.variant) == ("build", str(tmp_path / "mk.yaml"), "v")
    assert str(failure).startswith("`reprokit build mk:v` failed on 20") and failure.block == "run"


def test_the_text_of_an_error_is_kept_unless_its_output_is():
    failed = EngineError("cannot fetch https://me:secret@host.example/x", hint="try again")
    keep_error(failed)
    log, failure = read_log()
    assert log == b"error: cannot fetch https://host.example/x\nhint: try again\n" and failure.error
    for output in (NVCC, "an output that no rule explains\n"):
        last.explain_by(failed, output)
        keep_error(failed)
        assert read_log()[0].decode() == output
