"""The only module that prints. What strangers wrote (names, paths, outputs, errors) steers no terminal.

Control and format characters (ESC, C1, bidirectional overrides, zero width, lone surrogates) appear as escapes. What a
command in a container prints is passed byte for byte where it goes to a file or a pipe, or to a terminal that the user
asked for.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import select
import sys
import unicodedata
from functools import cache
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console


def escaped(text: str, *, lines: bool = False) -> str:
    r"""`text` with `\x1b`, `\u202e` and the like spelled out; line breaks too unless `lines`. Tabs and spaces stay."""
    if text.isprintable():
        return text
    return "".join(c if _is_harmless(c) or (lines and c == "\n") else _spelled(c) for c in text)


def _is_harmless(character: str) -> bool:
    return character.isprintable() or character == "\t" or unicodedata.category(character) == "Zs"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()


def echo(text: str = "", *, err: bool = False, file: IO[str] | None = None) -> None:
    """Print one line to standard output; to standard error or `file` a message, which may have several.

    Each further line of a message is indented, so that no stranger's line looks like one of ours.
    """
    stream = file or (sys.stderr if err else sys.stdout)
    message = err or file is not None
    _write(stream, _continued(escaped(text, lines=True)) if message else escaped(text))


def _continued(text: str) -> str:
    return re.sub(r"\n(?!  |$)", "\n  ", text)


def confirm(question: str) -> bool:
    """Ask the user at the terminal; no is the default."""
    import typer

    return typer.confirm(escaped(question), err=True)


def document(text: str, *, err: bool = False) -> None:
    """Print text of several lines that is ours as a whole, such as a Dockerfile: unchanged, except to a terminal."""
    stream = sys.stderr if err else sys.stdout
    _write(stream, escaped(text, lines=True) if stream.isatty() else text, "" if text.endswith("\n") else "\n")


def dump(value: Any) -> None:
    """Print JSON, in ASCII alone: machines read every character, and terminals obey none."""
    _write(sys.stdout, json.dumps(value, indent=2).replace("\x7f", "\\u007f"))


def _write(stream: IO[str], text: str, end: str = "\n") -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + end)
    stream.flush()


def console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """A rich console without markup and emoji codes, for standard output unless `file` is given.

    `width` is for tables where no terminal is: rich would assume 80 columns and cut what is wider.
    """
    stream = file or sys.stdout
    return _console_class()(
        file=stream, markup=False, emoji=False, highlight=False, width=None if stream.isatty() else width
    )


@cache
def _console_class() -> type[Console]:
    # rich takes longer to import than most commands to run.
    from rich.console import Console
    from rich.segment import Segment

    class Escaping(Console):
        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(escaped(text, lines=True), **options)

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                # Those with control codes are rich's own, which move the cursor.
                yield segment if segment.control else Segment(escaped(segment.text, lines=True), segment.style)

    return Escaping


class Output:
    """What a container's command writes, on a descriptor of ours: as it is, or to a terminal escaped."""

    def __init__(self, descriptor: int, *, raw: bool = False) -> None:
        """`raw` where the user asked for a terminal of the command's own."""
        self._descriptor = descriptor
        self._raw = raw or not os.isatty(descriptor)
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        # A carriage return would let a line hide what stood there before.
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)

    def write(self, data: bytes) -> None:
        if not self._raw:
            data = escaped(self._decoder.decode(data), lines=True).encode()
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # someone who shares the terminal made it non-blocking
                select.select([], [self._descriptor], [])
