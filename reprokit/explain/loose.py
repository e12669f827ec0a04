"""A rule's pattern with the freedom that versions of a program take: capitals, the word of the level, quotes.

In a marked pattern one character of Unicode's private use stands for each such freedom, so that fixed texts stay whole.
"""

from __future__ import annotations

import re
from functools import cache

from reprokit.explain.literals import FixedText, literals, step
from reprokit.untrusted.patterns import compiled_bytes

_LETTER = 0xE000  # and the letter: either case of it
_QUOTE = "\ue100"
_LEVELS = {"error": "\ue101", "fatal": "\ue102"}
_SPELT = {mark: f"(?:[{level[0].upper()}{level[0]}]{level[1:]}|{level.upper()})" for level, mark in _LEVELS.items()}
_MARK = re.compile("[\ue000-\ue102]")
# The first word of a sentence. Names in capitals, or with capitals inside, are no words.
_WORD = re.compile(r"[A-Za-z](?=[a-z]+[ ,.])")
_FREE = re.compile(
    r"(?P<level>(?<![\w./\\@-])(?:[Ee]rror|ERROR|[Ff]atal|FATAL)(?=: ))"
    rf"|(?P<word>(?<=[\]:>-] ){_WORD.pattern})|['\"`]"
)
# Characters that stand for themselves, without one that may be absent or come again.
_RUN = re.compile(r"[^\\\[()|.^$?*+{}]+(?![?*+{])")
_QUOTES = "'\"`"
_GROUP = re.compile(r"\(\?(?:P<\w+>|:)")
# After these an alternative, the line or another sentence begins.
_OPENING = re.compile(r"(?:^|[(|:>^]|\.\*)$")


@cache
def marked(pattern: str) -> str:
    """The pattern with marks; as it is where it ignores case, or would lose its fixed text."""
    if pattern.startswith("(?i)"):
        return pattern
    freed = _marked(pattern)
    try:
        literals(freed)
    except ValueError:
        return pattern
    return freed


def spelt(text: str) -> str:
    """A marked pattern as RE2 takes it."""
    return _MARK.sub(_spelt, text)


@cache
def freed(pattern: str) -> re.Pattern[bytes]:
    """The compiled pattern with its freedom."""
    return compiled_bytes(spelt(marked(pattern)))


def escaped(text: FixedText) -> str:
    """A pattern that finds a fixed text of a marked pattern."""
    import re2

    parts = [part if _MARK.match(part) else re2.escape(part) for part in re.split(f"({_MARK.pattern})", text.text)]
    return f"(?i:{''.join(parts)})" if text.fold else spelt("".join(parts))


def _spelt(match: re.Match[str]) -> str:
    mark = match[0]
    if mark == _QUOTE:
        return f"[{_QUOTES}]"
    letter = chr(ord(mark) - _LETTER)
    return _SPELT.get(mark) or f"[{letter.upper()}{letter}]"


def _marked(pattern: str) -> str:
    done, at = "", 0
    while at < len(pattern):
        if run := _RUN.match(pattern, at):
            done += _run(run[0], done)
            at = run.end()
            continue
        group = _GROUP.match(pattern, at)
        end = group.end() if group else at + step(pattern, at)
        done += _piece(pattern[at:end])
        at = end
    return done


def _run(text: str, before: str) -> str:
    """A fixed text of a pattern, after what stands before it."""
    opens, head = bool(_OPENING.search(before)), before[-1:]
    if opens and _WORD.match(text):
        return _letter(text[0]) + _run(text[1:], "x")

    def free(match: re.Match[str]) -> str:
        if match["level"]:
            return _LEVELS[match[0].lower()] if opens or match.start() > len(head) else match[0]
        return _letter(match[0]) if match["word"] else _QUOTE

    return _FREE.sub(free, head + text)[len(head) :]


def _letter(letter: str) -> str:
    return chr(_LETTER + ord(letter.lower()))


def _piece(piece: str) -> str:
    """A step of a pattern. A quote, and a class of characters with a quote in it, match every kind of quote."""
    if piece.startswith("[") and piece[1] not in "^]" and any(quote in piece for quote in _QUOTES):
        return f"[{_QUOTES}{piece[1:]}"
    return _QUOTE if piece.lstrip("\\") in tuple(_QUOTES) else piece
