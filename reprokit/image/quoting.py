"""How values of recipes are written into Dockerfiles.

Recipes come from strangers. A value reaches a Dockerfile only through one of these filters, each made for the
place where it lands; `finished` refuses every other value: a template that forgets its filter fails when it is
rendered, not when it is exploited.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from reprokit.errors import UsageError


class Quoted(str):
    """Text that a filter of this module has made safe for its place."""


def _text(value: Any, place: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise TypeError(f"{value!r} cannot be written as {place}")
    text = str(value)
    # A line break would start a new instruction. No place in a Dockerfile can carry one.
    if not text.isprintable():
        raise UsageError(f"{text!r} holds a control character, which {place} cannot carry")
    return Quoted(text)


def sh(value: str | int) -> Quoted:
    """One word of a shell command in RUN. Docker expands nothing there; the shell meets single quotes."""
    return Quoted(shlex.quote(_text(value, "a shell word")))


def word(value: str | int) -> Quoted:
    """One bare word, for FROM, COPY, WORKDIR and comments, where builders differ on what quotes mean."""
    text = _text(value, "a word")
    if not re.fullmatch(r"[A-Za-z0-9/_][A-Za-z0-9._/:@+~=-]*", text):
        raise UsageError(f"{text!r} holds characters that are not allowed here")
    return Quoted(text)


def env(value: str) -> Quoted:
    """The value of an ENV or ARG line: in double quotes, where Docker knows exactly three escapes."""
    return Quoted('"' + re.sub(r'(["$\\])', r"\\\1", _text(value, "an environment value")) + '"')


def finished(value: Any) -> Quoted:
    """Jinja's last step for every value that is written."""
    if not isinstance(value, Quoted):
        raise TypeError(f"a template writes {value!r} without a quoting filter")
    return value


FILTERS = {"sh": sh, "word": word, "env": env}
