"""The only module that prints. Text from outside (names, paths, output, errors) cannot control the terminal.

Control and format characters (ESC, C1, bidirectional overrides, zero width, lone surrogates) are printed as escapes.
The output of a command in a container is unchanged in a file, a pipe, or a terminal that the user requested (`-t`).
"""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import re
import select
import shutil
import signal
import sys
import unicodedata
from functools import cache
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

# As in git: keep colours, leave the text on the screen, quit if it fits. `P` is the prompt.
_LESS = "FRXPs?e(END) .q leaves, space shows more$"
# Colours of the first words of messages and findings: bold red, yellow, cyan, blue.
_COLOURS = {
    "error": "1;31", "warning": "33", "cause": "33", "hint": "36", "remedy": "36", "unknown": "36", "info": "34",
}  # fmt: skip


def escaped(text: str, *, lines: bool = False) -> str:
    r"""`text` with `\x1b`, `\u202e` and the like as escapes; line breaks too unless `lines`. Tabs and spaces stay."""
    if text.isprintable():
        return text
    return "".join(c if _is_harmless(c) or (lines and c == "\n") else _spelled(c) for c in text)


def markdown(text: str) -> str:
    """`text` escaped for Markdown, so that it has no markup, links or HTML."""
    import html

    # GitHub makes links of `www.` and formulas of `$`.
    return re.sub(r"(?i)([\\`*_{}\[\]#|~@:$]|(?<=www)\.)", r"\\\1", html.escape(escaped(text), quote=False))


def _is_harmless(character: str) -> bool:
    return character.isprintable() or character == "\t" or unicodedata.category(character) == "Zs"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()


def echo(text: str = "", *, err: bool = False, file: IO[str] | None = None) -> None:
    """Print one line to standard output, or a message of one or more lines to standard error or `file`.

    Further lines of a message are indented, so that text from outside cannot look like a message of reprokit.
    On a terminal the first word of an error or a warning has a colour.
    """
    stream = file or (sys.stderr if err else sys.stdout)
    message = err or file is not None
    _write(stream, _coloured(stream, _continued(escaped(text, lines=True))) if message else escaped(text))


def echo_labelled(label: str, text: str) -> None:
    """Print one line of a label, which has a colour on a terminal, and a text."""
    _write(sys.stdout, f"{_in_colour(sys.stdout, label)} {escaped(text)}")


def _coloured(stream: IO[str], message: str) -> str:
    word, colon, text = message.partition(":")
    return f"{_in_colour(stream, word + colon)}{text}"


def _in_colour(stream: IO[str], label: str) -> str:
    colour = _COLOURS.get(label.rstrip(": "))
    if not colour or not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return label
    return f"\x1b[{colour}m{label}\x1b[0m"


def _continued(text: str) -> str:
    return re.sub(r"\n(?!  |$)", "\n  ", text)


def confirm(question: str) -> bool:
    """Ask the user at the terminal; no is the default."""
    import typer

    return typer.confirm(escaped(question), err=True)


def document(text: str, *, err: bool = False) -> None:
    """Print a document of reprokit, such as a Dockerfile: unchanged, but escaped on a terminal and in messages."""
    stream = sys.stderr if err else sys.stdout
    harmless = err or stream.isatty()  # a log of messages is shown in a terminal later
    _write(stream, escaped(text, lines=True) if harmless else text, "" if text.endswith("\n") else "\n")


@contextlib.contextmanager
def paged() -> Iterator[None]:
    """Show the block's output in `$PAGER`, by default less, if the terminal is too small for it."""
    stream = sys.stdout
    if not stream.isatty():
        yield
        return
    page = _Page()
    try:
        with contextlib.redirect_stdout(page):
            yield
    finally:
        _show(stream, page.getvalue())


class _Page(io.StringIO):
    """Text for a terminal: it is escaped, and has colours."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def _show(stream: IO[str], text: str) -> None:
    pager = os.environ.get("PAGER", "less").strip()
    fits = text.count("\n") < shutil.get_terminal_size().lines
    if fits or not pager or os.environ.get("TERM") == "dumb" or not shutil.which(pager.split()[0]):
        _write(stream, text, "")
        return
    import subprocess

    # Ctrl-C is the pager's. pydoc's pager, which rich calls, would prefer $MANPAGER to PAGER=cat.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        page = text.encode("utf-8", "backslashreplace")
        subprocess.run(pager, shell=True, input=page, env={"LESS": _LESS, **os.environ}, check=False)
    finally:
        signal.signal(signal.SIGINT, before)


def dump(value: Any) -> None:
    """Print JSON in ASCII, without control characters. Raises ValueError for a number that JSON cannot hold."""
    _write(sys.stdout, json.dumps(value, indent=2, allow_nan=False).replace("\x7f", "\\u007f"))


def _write(stream: IO[str], text: str, end: str = "\n") -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + end)
    stream.flush()


def console(file: IO[str] | None = None) -> Console:
    """A rich console without markup and emoji codes, for standard output unless `file` is given."""
    return _console_class()(file=file or sys.stdout, markup=False, emoji=False, highlight=False)


@cache
def _console_class() -> type[Console]:
    # Importing rich takes longer than most commands.
    from rich.console import Console
    from rich.segment import Segment

    class Escaping(Console):
        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(escaped(text, lines=True), **options)

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                # Segments with control codes are rich's own, which move the cursor.
                yield segment if segment.control else Segment(escaped(segment.text, lines=True), segment.style)

    return Escaping


class Output:
    """Writes the output of a container's command to a descriptor; escaped if that is a terminal."""

    def __init__(self, descriptor: int, *, raw: bool = False) -> None:
        """`raw`: the user requested a terminal for the command."""
        self._descriptor = descriptor
        self._raw = raw or not os.isatty(descriptor)
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        # A carriage return could hide the text before it.
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)

    def write(self, data: bytes) -> None:
        if not self._raw:
            data = escaped(self._decoder.decode(data), lines=True).encode()
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # another process made the shared terminal non-blocking
                select.select([], [self._descriptor], [])
