"""Logs as plain text: colours, carriage returns and JSON streams are read through, and lines stay countable."""

from __future__ import annotations

import io
import json

import pytest

from reprokit.explain import blocks
from reprokit.explain.blocks import LogBlock
from tests.support import logs


def read(raw: bytes) -> list[LogBlock]:
    return list(blocks.blocks(io.BytesIO(raw)))


def parts(raw: bytes) -> list[bytes]:
    """The text as lines, and what carriage returns separate in them."""
    text = b"".join(block.text[block.start : block.end] for block in read(raw))
    return [part for part in text.replace(b"\r", b"\n").split(b"\n") if part.strip()]


def test_colours_titles_and_links_are_removed():
    raw = b"\x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kx\n\x1b]0;title\x07y\n\x1b]8;;http://x\x1b\\z\x1b]8;;\x1b\\\n\x1b[2K\x1b[1Aw\n"
    assert parts(raw) == [b"error: x", b"y", b"z", b"w"]


def test_a_cut_off_sequence_ends_with_its_line():
    assert parts(b"\x1b]0;never ended\nnext\n\x1b[31\nlast\x1b") == [b"next", b"last"]


def test_quotes_are_plain():
    assert parts("cannot find \u2018x\u2019 \u201cy\u201d\n".encode()) == [b"cannot find 'x' \"y\""]


def test_a_carriage_return_divides_a_line_and_ends_none():
    (block,) = read(b"10%\r90%\rdone\nnext\n")
    assert block.text.count(b"\n") == 2
    assert parts(b"10%\r90%\rdone\r\nnext\n") == [b"10%", b"90%", b"done", b"next"]


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
    raw = b"".join(b"line %d\n" % number for number in range(1, 400_001))
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
