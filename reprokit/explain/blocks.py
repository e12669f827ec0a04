"""A log as blocks of plain text: colours removed, JSON streams unpacked, lines still countable.

Memory stays bounded whatever the log's size or its longest line.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import IO, NamedTuple

SIZE = 1 << 20
# Text before and after each examined line that stays at hand.
MARGIN = 32 << 10
# Control sequences: colours and cursor moves, titles and links, the rest.
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?")
_BASE64 = re.compile(rb'"data":\s?"([A-Za-z0-9+/=]*)"')
# What stands before the text of an event; its parts are separated by carriage returns.
_KEYS = tuple(f'"{key}":{space}"'.encode() for key in ("stream", "log", "message", "error") for space in ("", " "))
_UNICODE = re.compile(rb"\\u([0-9a-fA-F]{4})")
# GitHub Actions: a failed step ends here; what follows cleans up. Actions print their own message and no exit code.
_STEP_FAILED = re.compile(rb"##\[error\]Process completed with exit code [1-9][^\n]*\n?")
_JOB_FAILED = re.compile(rb"##\[error\](?s:.*?)\bPost job cleanup\.[^\n]*\n?")
_QUOTES = {"\u2018": b"'", "\u2019": b"'", "\u201c": b'"', "\u201d": b'"'}


class LogBlock(NamedTuple):
    """`text[start:end]` is to be examined; what is around it is context. `line` is the number of the first line."""

    text: bytes
    start: int
    end: int
    line: int
    last: bool


def blocks(log: IO[bytes]) -> Iterator[LogBlock]:
    """The log from its beginning to its end. A carriage return ends a part of a line; only a newline ends the line."""
    text, start, line = b"", 0, 1
    pieces = _pieces(log)
    piece = next(pieces, b"")
    while piece:
        following = next(pieces, b"")
        plain = _plain(piece)
        if failed := _STEP_FAILED.search(plain) or _JOB_FAILED.search(plain):
            plain, following = plain[: failed.end()], b""
        text += plain
        end = len(text) if not following else _line_end(text, start, max(start, len(text) - MARGIN))
        yield LogBlock(text, start, end, line, not following)
        dropped = max(0, text.rfind(b"\n", 0, max(0, end - MARGIN)) + 1) or max(0, end - 2 * MARGIN)
        line += text.count(b"\n", 0, dropped)
        text, start, piece = text[dropped:], end - dropped, following


def _line_end(text: bytes, start: int, most: int) -> int:
    """The end of the last complete line before `most`; `most` itself within a line that has no end."""
    return text.rfind(b"\n", start, most) + 1 or most


def _pieces(log: IO[bytes]) -> Iterator[bytes]:
    """Complete lines in pieces of about SIZE bytes; a longer line is cut."""
    partial = b""
    while block := log.read(SIZE):
        block = partial + block
        cut = block.rfind(b"\n") + 1
        if not cut and len(block) >= SIZE:
            cut = len(block)
        if cut:
            yield block[:cut]
        partial = block[cut:]
    if partial:
        yield partial


def _plain(piece: bytes) -> bytes:
    if piece.lstrip()[:2] == b'{"':
        piece = _unpacked(piece)
    if b"\x1b" in piece:
        piece = _ESCAPES.sub(b"", piece)
    if b"\xe2\x80" in piece:
        for quote, plain in _QUOTES.items():
            piece = piece.replace(quote.encode(), plain)
    if b"\r\n" in piece:
        piece = piece.replace(b"\r\n", b"\n")
    return piece


def _unpacked(piece: bytes) -> bytes:
    """The texts of Docker's and BuildKit's JSON events. Newlines inside one become carriage returns."""
    for key in _KEYS:
        piece = piece.replace(key, b"\r")
    if b'"data":' in piece:
        piece = _BASE64.sub(_decoded, piece)
    piece = piece.replace(b"\\\\", b"\0")
    for escape, plain in ((b"\\n", b"\r"), (b"\\r", b"\r"), (b"\\t", b"\t"), (b'\\"', b'"'), (b"\\/", b"/")):
        piece = piece.replace(escape, plain)
    piece = piece.replace(b"\\u001b", b"\x1b").replace(b"\\u001B", b"\x1b")
    if b"\\u" in piece:
        piece = _UNICODE.sub(_character, piece)
    return piece.replace(b"\0", b"\\").replace(b'\r"}\n', b"\n").replace(b'\r"}\r\n', b"\n")


def _decoded(match: re.Match[bytes]) -> bytes:
    try:
        return b"\r" + base64.b64decode(match[1]).replace(b"\\", b"\\\\").replace(b"\n", b"\r") + b"\r"
    except binascii.Error:
        return match[0]


def _character(match: re.Match[bytes]) -> bytes:
    character = chr(int(match[1], 16))
    return b"\r" if character in "\r\n" else character.encode("utf-8", "replace")
