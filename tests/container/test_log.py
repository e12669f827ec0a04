from __future__ import annotations

import pytest

from reprokit.container import log


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))


def _write(text: bytes) -> None:
    with log.CommandLog("c", ["echo", "a b"]) as command:
        command.write(text)
        command.exited(0)


def test_a_command_its_output_and_its_end():
    _write(b"one\n")
    lines = b"".join(log.read("c")).decode().splitlines()
    assert lines[0].endswith("] $ echo 'a b'")
    assert lines[1] == "one"
    assert lines[2].startswith("[exit 0 after ")
    assert log.log_path("c").stat().st_mode & 0o777 == 0o600


def test_an_interrupt_is_noted():
    with pytest.raises(KeyboardInterrupt), log.CommandLog("c", ["x"]):
        raise KeyboardInterrupt
    assert b"".join(log.read("c")).endswith(b"[interrupted]\n")


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\nb\nc\n", b"a\nb\nc", b"x" * 200_000 + b"\nb\nc\n"])
@pytest.mark.parametrize("tail", [0, 1, 2, 3, 9])
def test_last_lines(content, tail):
    log.log_path("c").parent.mkdir(parents=True)
    log.log_path("c").write_bytes(content)
    lines = content.splitlines(keepends=True)
    assert b"".join(log.read("c", tail=tail)) == b"".join(lines[len(lines) - tail :] if tail <= len(lines) else lines)


def test_a_large_log_is_put_aside_and_both_are_forgotten(monkeypatch):
    monkeypatch.setattr(log, "_KEEP_BYTES", 10)
    _write(b"old\n")
    _write(b"new\n")
    assert b"old" not in b"".join(log.read("c"))
    assert b"old" in log.log_path("c").with_suffix(".log.1").read_bytes()
    log.forget("c")
    assert list(log.log_path("c").parent.iterdir()) == []
    assert list(log.read("c")) == []


def test_a_place_that_cannot_be_written_stops_no_command(tmp_path):
    (tmp_path / "state").write_text("a file")
    _write(b"one\n")
