"""Logs as plain text whose lines stay countable; what is examined is bounded, what is shown harms no terminal."""

from __future__ import annotations

import io
import json
from copy import copy

import pytest

from reprokit.explain import blocks, ending
from reprokit.explain import scan as module
from reprokit.explain.blocks import LogBlock
from reprokit.explain.load import matcher
from reprokit.explain.scan import scan
from tests.support import logs

HEADER = b"a.cc:1:10: fatal error: cudnn.h: No such file or directory\n"


def read(raw: bytes) -> list[LogBlock]:
    return list(blocks.blocks(io.BytesIO(raw)))


def parts(raw: bytes) -> list[bytes]:
    """The text as lines, and what carriage returns separate in them."""
    text = b"".join(block.text[block.start : block.end] for block in read(raw))
    return [part for part in text.replace(b"\r", b"\n").split(b"\n") if part.strip()]


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (
            b"\x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kx\n\x1b]0;title\x07y\n\x1b]8;;http://x\x1b\\z\x1b]8;;\x1b\\\n\x1b[2K\x1b[1Aw\n",
            [b"error: x", b"y", b"z", b"w"],
        ),
        (b"\x1b]0;never ended\nnext\n\x1b[31\nlast\x1b", [b"next", b"last"]),
        ("cannot find \u2018x\u2019 \u201cy\u201d\n".encode(), [b"cannot find 'x' \"y\""]),
        (b"10%\r90%\rdone\r\nnext\n", [b"10%", b"90%", b"done", b"next"]),
    ],
    ids=["colours, titles and links", "sequences without an end", "quotes", "carriage returns"],
)
def test_a_log_is_read_as_plain_text(raw: bytes, lines: list[bytes]):
    assert parts(raw) == lines


@pytest.mark.parametrize("form", [logs.docker_json, logs.container_json, logs.buildkit_json])
def test_json_streams_give_the_lines_that_they_carry(form):
    text = 'E: "quoted" \u2018x\u2019 \\n back\\slash\n\x1b[31merror: red\x1b[0m\ttab <a> & b\nlast\n'
    found = parts(form(text).encode())
    for wanted in (b"E: \"quoted\" 'x' \\n back\\slash", b"error: red\ttab <a> & b", b"last"):
        assert any(wanted in part for part in found), (wanted, found)
    assert sum(block.text[block.start : block.end].count(b"\n") for block in read(form(text).encode())) == 3


def test_several_lines_in_one_event_are_parts_of_its_line():
    raw = (json.dumps({"stream": "a\nb\n"}) + "\n" + json.dumps({"error": "c"}) + "\n").encode()
    assert parts(raw) == [b"{", b"a", b"b", b"{", b'c"}']
    assert read(raw)[0].text.count(b"\n") == 2


@pytest.mark.parametrize(
    "raw", [b'{"data":"!!!"}\n', b'{"logs":[{"data":"AAA"}]}\n', b'{"\n', b'{"stream":"\\ud800\\u00"}']
)
def test_broken_json_is_text(raw: bytes):
    assert len(read(raw)) == 1


def test_lines_are_counted_across_blocks():
    raw = b"".join(b"line %d\n" % number for number in range(1, 100_001))
    for block in read(raw):
        line = block.line + block.text.count(b"\n", 0, block.start)
        assert block.text[block.start :].startswith(b"line %d\n" % line)
    assert sum(block.end - block.start for block in read(raw)) == len(raw)


def test_memory_is_bounded_whatever_the_longest_line():
    class Endless(io.RawIOBase):
        left = 40 << 20

        def read(self, size: int = -1) -> bytes:
            size = min(size, self.left)
            self.left -= size
            return b"x" * size

    for block in blocks.blocks(Endless()):
        assert len(block.text) < 4 * blocks.SIZE


class Counting:
    """A pattern set that counts the lines it is asked about."""

    def __init__(self, patterns) -> None:
        self.patterns, self.asked, self.longest = patterns, 0, 0

    def search(self, text: bytes) -> list[int]:
        self.asked += 1
        self.longest = max(self.longest, len(text))
        return self.patterns.search(text)


def counted(raw: bytes):
    rules = copy(matcher())
    rules.texts = counting = Counting(rules.texts)  # type: ignore[assignment]
    return scan(io.BytesIO(raw), rules), counting


def test_only_suspicious_lines_are_examined_and_once():
    found, counting = counted(b"[ 12%] Building CXX object src/core.dir/handler.cc.o\n" * 50_000 + HEADER)
    assert "cudnn-header" in found.rules and counting.asked <= 2
    found, counting = counted(b"x: error: y error: z Permission denied No such file or directory\n" * 1000)
    assert found.lines == 1000 and counting.asked <= 1000 + ending.WINDOW


def test_after_many_suspicious_lines_only_the_end_is_examined(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST", 1000)
    found, counting = counted(b"x.cc:1:1: error: y\n" * 200_000 + HEADER)
    assert found.lines == 200_001 and counting.asked <= 3 * 1000


@pytest.mark.slow
def test_the_lines_around_are_examined_for_a_bounded_number_of_lines(monkeypatch: pytest.MonkeyPatch):
    asked = []
    around = module.Place.around
    monkeypatch.setattr(module.Place, "around", lambda place, lines: asked.append(place.line) or around(place, lines))
    found, _ = counted(b"ModuleNotFoundError: No module named 'torch'\n" * 3_000)
    assert max(asked) <= 500 and found.rules["missing-python-package"].last == 3_000


def test_a_long_line_is_examined_in_parts():
    found, counting = counted(b"x" * 3_000_000 + b" fatal error: cudnn.h: No such file " + b"y" * 3_000_000 + b"\n")
    assert "cudnn-header" in found.rules and counting.longest < 3 * module.LONGEST
    found, counting = counted(b"Permission denied" * 300_000)
    assert found.lines == 1 and counting.asked * module.LONGEST < 20 * 17 * 300_000  # no quadratic time


def test_text_context_and_captures_have_no_control_characters():
    raw = (
        b"bad \x1b]0;x\x07 \xe2\x80\xae before\n/x: version `GLIBCXX_3.4.\x9b22' not found\x1b[2J\x00\xff\nafter\x07\n"
    )
    raw += b"ImportError: a.so: undefined symbol: x\x1b\n"
    found = scan(io.BytesIO(raw), matcher())
    hit = found.rules["undefined-symbol"]
    shown = [hit.text, *hit.values.values(), *(text for _, text in hit.context)]
    assert all(text.isprintable() for text in shown), shown
    assert len(hit.context) == 4


def test_context_has_the_numbers_of_its_lines():
    raw = b"".join(b"line %d\n" % number for number in range(1, 9)) + HEADER + b"line 10\n"
    hit = scan(io.BytesIO(raw), matcher()).rules["cudnn-header"]
    assert [number for number, _ in hit.context] == [6, 7, 8, 9, 10]
    assert [text for number, text in hit.context if number != 9] == ["line 6", "line 7", "line 8", "line 10"]


@pytest.mark.parametrize("raw", [b"", b"\n", b"\r", b"\n\n\n", b"x", b"\x00" * 100, b"\xff\xfe\n"])
def test_logs_of_almost_nothing(raw: bytes):
    found = scan(io.BytesIO(raw), matcher())
    assert not found.rules and not found.errors
