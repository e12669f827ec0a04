"""What is examined of a log is bounded, and what is shown of it harms no terminal."""

from __future__ import annotations

import io

import pytest

from reprokit.explain import ending
from reprokit.explain import scan as module
from reprokit.explain.load import matcher
from reprokit.explain.scan import scan

HEADER = b"a.cc:1:10: fatal error: cudnn.h: No such file or directory\n"


class Counting:
    """A pattern set that counts the lines it is asked about."""

    def __init__(self, patterns) -> None:
        self.patterns, self.asked, self.longest = patterns, 0, 0

    def search(self, text: bytes) -> list[int]:
        self.asked += 1
        self.longest = max(self.longest, len(text))
        return self.patterns.search(text)


def counted(raw: bytes):
    counting = Counting(matcher().texts)
    return scan(io.BytesIO(raw), matcher()._replace(texts=counting)), counting


def test_ordinary_lines_are_not_examined():
    raw = b"[ 12%] Building CXX object src/core.dir/handler.cc.o\n" * 50_000
    found, counting = counted(raw + HEADER)
    assert "cudnn-header" in found.rules
    assert counting.asked <= 2


def test_each_suspicious_line_is_examined_once():
    found, counting = counted(b"x: error: y error: z Permission denied No such file or directory\n" * 1000)
    assert counting.asked <= 1000 + ending.WINDOW
    assert found.lines == 1000


def test_after_many_suspicious_lines_only_the_end_is_examined(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST", 1000)
    found, counting = counted(b"x.cc:1:1: error: y\n" * 200_000 + HEADER)
    assert counting.asked <= 3 * 1000
    assert found.lines == 200_001


@pytest.mark.slow
def test_the_lines_around_are_examined_for_a_bounded_number_of_lines(monkeypatch: pytest.MonkeyPatch):
    asked = []
    around = module.Place.around
    monkeypatch.setattr(module.Place, "around", lambda place, lines: asked.append(place.line) or around(place, lines))
    found, _ = counted(b"ModuleNotFoundError: No module named 'torch'\n" * 20_000)
    assert max(asked) <= 500
    assert found.rules["missing-python-package"].last == 20_000


def test_a_long_line_is_examined_in_parts():
    found, counting = counted(b"x" * 3_000_000 + b" fatal error: cudnn.h: No such file " + b"y" * 3_000_000 + b"\n")
    assert "cudnn-header" in found.rules
    assert counting.longest < 3 * module.LONGEST


def test_a_line_of_suspicious_words_takes_no_quadratic_time():
    found, counting = counted(b"Permission denied" * 300_000)
    assert counting.asked * module.LONGEST < 20 * 17 * 300_000
    assert found.lines == 1


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
    assert not found.rules
    assert not found.errors
