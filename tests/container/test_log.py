from __future__ import annotations

import tracemalloc

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


def test_an_interrupt_is_noted_and_words_that_are_not_utf8_are_escaped():
    with pytest.raises(KeyboardInterrupt), log.CommandLog("c", ["cat", "donn\udce9es"]):
        raise KeyboardInterrupt
    text = b"".join(log.read("c"))
    assert b"cat 'donn\\udce9es'" in text and text.endswith(b"[interrupted]\n")


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\nb\nc\n", b"a\nb\nc", b"x" * 200_000 + b"\nb\nc\n"])
def test_last_lines(content):
    log.log_path("c").parent.mkdir(parents=True)
    log.log_path("c").write_bytes(content)
    lines = content.splitlines(keepends=True)
    for tail in (0, 1, 2, 3, 9):
        last = lines[len(lines) - tail :] if tail <= len(lines) else lines
        assert b"".join(log.read("c", tail=tail)) == b"".join(last)


def test_a_large_log_is_put_aside_and_both_are_forgotten(monkeypatch):
    monkeypatch.setattr(log, "_KEEP_BYTES", 60)
    _write(b"old\n")
    _write(b"new\n")
    assert b"old" not in log.log_path("c").read_bytes()
    log.move("c", "d")
    lines = b"".join(log.read("d")).splitlines()
    assert [line for line in lines if line in (b"old", b"new")] == [b"old", b"new"]
    log.forget("d")
    assert list(log.log_path("c").parent.iterdir()) == []
    assert list(log.read("d")) == []


def test_last_lines_of_both_parts():
    """A full log becomes the older part at once, even in the middle of a line."""
    content = b"a\nbb\n\nc\n"
    lines, path = content.splitlines(keepends=True), log.log_path("c")
    path.parent.mkdir(parents=True)
    for at in range(9):
        path.with_suffix(".log.1").write_bytes(content[:at])
        path.write_bytes(content[at:])
        assert b"".join(log.read("c", tail=None)) == content
        for tail in (0, 1, 2, 3, 4, 9):
            assert b"".join(log.read("c", tail=tail)) == b"".join(lines[max(0, 4 - tail) :])
    path.write_bytes(b"")
    path.with_suffix(".log.1").write_bytes(b"a\nb")
    assert b"".join(log.read("c", tail=1)) == b"b"


def test_a_log_is_put_aside_while_a_command_writes(monkeypatch):
    monkeypatch.setattr(log, "_KEEP_BYTES", 1000)
    followed = log.read("c", follow=True)
    with log.CommandLog("c", ["one"]) as one, log.CommandLog("c", ["two"]) as two:
        seen = next(followed)
        for number in range(100):
            (one if number % 3 else two).write(b"%099d\n" % number)
            while b"%099d\n" % number not in seen:
                seen += next(followed)
    sizes = [path.stat().st_size for path in log.log_path("c").parent.iterdir()]
    assert len(sizes) == 2 and max(sizes) <= 1100
    assert b"".join(log.read("c", tail=1)) == b"%099d\n" % 99


@pytest.mark.slow
@pytest.mark.parametrize("filler", ["one line", "empty lines"])
def test_last_lines_take_little_memory(filler: str):
    log.log_path("c").parent.mkdir(parents=True)
    with log.log_path("c").open("wb") as file:
        if filler == "one line":
            file.truncate(256 << 20)
            file.seek(0, 2)
        else:
            file.write(b"\n" * (8 << 20))
        file.write(b"\nlast\n")
    tracemalloc.start()
    try:
        size = sum(map(len, log.read("c", tail=2)))
        peak = tracemalloc.get_traced_memory()[1]
        assert b"".join(log.read("c", tail=1)) == b"last\n"
        assert sum(map(len, log.read("c", tail=1_000_000))) >= 1_000_000 + 4
    finally:
        tracemalloc.stop()
    assert size == ((256 << 20) + 6 if filler == "one line" else 6)
    assert peak < 1 << 20


def test_a_place_that_cannot_be_written_stops_no_command(tmp_path):
    (tmp_path / "state").write_text("a file")
    _write(b"one\n")
