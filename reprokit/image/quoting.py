"""Quoting the values of recipes in Dockerfiles.

Recipes come from strangers. Every value is written through one of these filters, each for one kind of place. `finished`
refuses other values, so that a template without a filter fails when it is rendered.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from reprokit.errors import UsageError


class Quoted(str):
    """Text that a filter has made safe for its place."""


def _text(value: Any, place: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        # Formatting an undefined value raises an error that names it.
        raise TypeError(f"{value} cannot be written as {place}")
    text = str(value)
    # A line break would start a new instruction.
    if not text.isprintable():
        raise UsageError(f"{text!r} contains a control character, which is not allowed in {place}")
    return Quoted(text)


def sh(value: str | int) -> Quoted:
    """One word of a shell command in RUN, in single quotes. Docker expands nothing there."""
    return Quoted(shlex.quote(_text(value, "a shell word")))


def word(value: str | int) -> Quoted:
    """One bare word, for FROM, COPY, WORKDIR and comments, where builders treat quotes differently."""
    text = _text(value, "a word")
    if not re.fullmatch(r"[A-Za-z0-9/_][A-Za-z0-9._/:@+~=-]*", text):
        raise UsageError(f"{text!r} contains characters that are not allowed here")
    return Quoted(text)


def env(value: str) -> Quoted:
    """The value of an ENV or ARG line, in double quotes, where Docker has exactly three escapes."""
    return Quoted('"' + re.sub(r'(["$\\])', r"\\\1", _text(value, "an environment value")) + '"')


def finished(value: Any) -> Quoted:
    """Jinja's last step for every value."""
    if not isinstance(value, Quoted):
        raise TypeError(f"a template writes {value!r} without a quoting filter")
    return value


FILTERS = {"sh": sh, "word": word, "env": env}
