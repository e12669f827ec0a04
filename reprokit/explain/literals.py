"""The fixed texts of a regular expression: every match of it contains one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

SHORTEST = 3
_QUANTIFIER = re.compile(r"[?*+]|\{\d+(?:,\d*)?\}")
_FLAGS = re.compile(r"^\?(?::|P<\w+>)")
_OTHER_FLAGS = re.compile(r"\(\?[a-zA-Z-]+[:)]")
_ESCAPE = re.compile(r"\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[pP]\{\^?\w+\}|[pP]\w|[0-7]{1,3}|.)", re.DOTALL)


class FixedText(NamedTuple):
    """A text that a match contains; `fold` if upper and lower case are the same."""

    text: str
    fold: bool


@cache
def literals(pattern: str) -> list[FixedText]:
    """The longest fixed text of each alternative of an RE2 pattern. Raises ValueError if one is too short.

    Texts inside a group count if each of its branches has one that is longer than those outside. Flags other than a
    leading `(?i)` raise ValueError, too, and with it other letters than ASCII's, and `\\Q`.
    """
    fold, pattern = pattern.startswith("(?i)"), pattern.removeprefix("(?i)")
    if fold and not pattern.isascii():
        raise ValueError("(?i) is for letters of ASCII only")
    at = 0 if _OTHER_FLAGS.search(pattern) or "\\Q" in pattern else len(pattern)
    while at < len(pattern):
        if _OTHER_FLAGS.match(pattern, at) or pattern.startswith("\\Q", at):
            raise ValueError(f"flags other than a leading (?i), or \\Q, at {pattern[at:]!r}")
        at += step(pattern, at)
    fixed_texts = []
    for alternative in _alternatives(pattern):
        texts = _texts(alternative)
        if not texts:
            raise ValueError(f"no fixed text of {SHORTEST} characters in {alternative!r}")
        fixed_texts += [FixedText(text, fold) for text in texts]
    return fixed_texts


def _texts(alternative: str) -> list[str]:
    """Fixed texts, as long as possible: every match contains one of them. Empty if one would be too short."""
    groups = [[_longest(branch) for branch in _alternatives(group)] for group in _groups(alternative)]
    texts = max([[_longest(alternative)], *groups], key=lambda texts: min(map(len, texts)))
    return texts if min(map(len, texts)) >= SHORTEST else []


def _longest(alternative: str) -> str:
    return max(_runs(alternative), key=len)


def _groups(pattern: str) -> Iterator[str]:
    """The insides of the groups that a match cannot do without."""
    depth, start, at = 0, 0, 0
    while at < len(pattern):
        size = step(pattern, at)
        if size == 1 and pattern[at] == "(":
            depth += 1
            start = at + 1 if depth == 1 else start
        elif size == 1 and pattern[at] == ")":
            depth -= 1
            if depth == 0 and pattern[at + 1 : at + 2] not in {"?", "*", "{"}:
                yield _FLAGS.sub("", pattern[start:at])
        at += size


def _alternatives(pattern: str) -> list[str]:
    """`a|b(c|d)` as `a`, `b(c|d)`."""
    parts, start, depth, at = [], 0, 0, 0
    while at < len(pattern):
        size = step(pattern, at)
        if size == 1:
            depth += (pattern[at] == "(") - (pattern[at] == ")")
            if pattern[at] == "|" and depth == 0:
                parts.append(pattern[start:at])
                start = at + 1
        at += size
    return [*parts, pattern[start:]]


def _runs(pattern: str) -> list[str]:
    """The fixed texts of one alternative, outside groups."""
    runs, run, depth, at = [], "", 0, 0
    while at < len(pattern):
        size = step(pattern, at)
        piece, quantifier = pattern[at : at + size], _QUANTIFIER.match(pattern, at + size)
        depth += (piece == "(") - (piece == ")")
        fixed = _fixed(piece) if depth == 0 else ""
        if fixed and not quantifier:
            run += fixed
        else:
            runs.append(run)
            run = ""
        at = quantifier.end() if quantifier and quantifier[0][0] == "{" else at + size
    return [*runs, run]


def step(pattern: str, at: int) -> int:
    """The length of the escape, the character class or the character at `at`."""
    if pattern[at] == "\\" and (escape := _ESCAPE.match(pattern, at)):
        return len(escape[0])
    if pattern[at] != "[":
        return 1
    end = at + 2 if pattern[at + 1 : at + 2] == "^" else at + 1
    end += pattern[end : end + 1] == "]"
    while end < len(pattern) and pattern[end] != "]":
        if pattern.startswith("[:", end):
            end = pattern.index(":]", end) + 2
        else:
            end += step(pattern, end) if pattern[end] == "\\" else 1
    return end + 1 - at


def _fixed(piece: str) -> str:
    """The character that a piece stands for; empty if it stands for several or for none."""
    if piece.startswith("\\"):
        return piece[1:] if len(piece) == 2 and not piece[1:].isalnum() else ""
    return piece if len(piece) == 1 and piece not in "()|.^$?*+{}" else ""
