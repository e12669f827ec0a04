"""The exception at the end of a Python traceback, whatever its class is called."""

from __future__ import annotations

import builtins
import re
from itertools import islice
from typing import NamedTuple

# Bytes after the word Traceback that are searched for the exception.
REACH = 24 << 10
# What stands before a line, but not its indentation.
_BEFORE = re.compile(
    rb"(?:#\d+ (?:\d+\.\d+ )?|\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\d]*Z?:? |\[rank\d+\]: ?|\[\d+,\d+\]<std\w+>: ?"
    rb"|\([\w.-]+ pid=\d+[^)]{0,80}\) |[EFW]\d{4} [\d:.]+ +\d+ [^\]]{1,80}\] "
    rb"|[A-Z]+ \d\d-\d\d [\d:]{8} \[[^\]]{1,60}\] "
    rb"|[\w.-]{1,60}-\d+ +\| ?|\xe2\x94\x82 ?|\| )+"
)
_LINE = re.compile(rb"[^\r\n]+")
_FRAME = re.compile(rb'File "(?P<file>[^"]+)", line (?P<row>\d+)')
# Files that come with Python or with an installed package.
_INSTALLED = re.compile(
    rb"(?:site|dist)-packages/|/lib/python\d|<frozen|<string>|\.pyx$|[\\/]lib[\\/](?!.*/src/)\w+\.py$"
)
_END = re.compile(
    rb"(?P<class>(?:\w+\.)*(?:[A-Z]\w*|\w+\.(?:error|timeout|gaierror|herror))|Error in \w+)"
    rb"(?:\(\w+\))?(?::(?: +(?P<what>.*))?)?\s*$"
)
_MODULE = re.compile(rb"[a-z_][\w.]*\.")
_BEGINS = b"Traceback (most recent call last)"
_NO_CLASS = (b"Killed", b"Aborted", b"Terminated", b"File", b"Note", b"ERROR", b"INFO")
# A message that is only a place in a source goes on below.
_PLACE = re.compile(rb"\S+\.\w+[ :(]+\d+\)?$")
_CHAINED = (b"During handling of the above", b"The above exception was the direct cause")


class Raised(NamedTuple):
    """An exception as its traceback prints it. `start` and `end` are places in the text."""

    start: int
    end: int
    values: dict[str, bytes]


def raised(text: bytes, start: int) -> Raised | None:
    """The exception of the traceback whose first line begins at `start`; None if its end is not at hand."""
    indent, frame, own = None, {}, {}
    for line in _LINE.finditer(text, start, min(len(text), start + REACH)):
        if indent is None:
            indent = _indent(line[0])
            continue
        if _BEGINS in line[0]:
            return None
        bare = _bare(line[0])
        if match := _FRAME.search(bare):
            frame = {**match.groupdict(), "code": _code(_following(text, line.end()), _indent(line[0]))}
            if not _INSTALLED.search(match["file"]):
                own = {f"own_{name}": value for name, value in frame.items()}
            continue
        end = _END.match(bare.lstrip()) if _indent(line[0]) <= indent else None
        if end is None or end["class"] in _NO_CLASS:
            continue
        what = (end["what"] or b"").strip()
        following = _bare(next(iter(_following(text, line.end())), b"")).strip()
        goes_on = what[-1:] in (b"", b":") or _PLACE.fullmatch(what)
        if goes_on and not following.startswith(_CHAINED):
            what = b" ".join((what, following)).strip()
        return Raised(line.start(), line.end(), {**frame, **own, "class": end["class"], "what": what})
    return None


def _following(text: bytes, start: int) -> list[bytes]:
    lines = _LINE.finditer(text, start, min(len(text), start + 1000))
    return [line[0] for line in islice(lines, 8)]


def exception(line: bytes) -> dict[str, bytes]:
    """The class and message of a line that names one of Python's own exceptions, or one with its module."""
    end = _END.match(line)
    if end is None or not (hasattr(builtins, end["class"].decode()) or _MODULE.match(end["class"])):
        return {}
    return {"class": end["class"], "what": (end["what"] or b"").strip()}


def _code(lines: list[bytes], indent: int) -> bytes:
    """The source line of a frame, which is indented more than the frame; empty if there is none."""
    following = next((line for line in lines if _indent(line) != 0), b"")
    return _bare(following).strip() if _indent(following) > indent else b""


def _bare(line: bytes) -> bytes:
    match = _BEFORE.match(line)
    return line[match.end() :] if match else line


def _indent(line: bytes) -> int:
    bare = _bare(line)
    return len(bare) - len(bare.lstrip(b" "))
