"""Every match of a pattern contains one of its fixed texts."""

from __future__ import annotations

import re

import pytest

from reprokit.explain.literals import FixedText, literals


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("no space left", ["no space left"]),
        (r"fatal error: (?P<h>\S+): No such file", [": No such file"]),
        (r"^E: \S+", ["E: "]),
        ("first|second", ["first", "second"]),
        (r"a(?:b|c)defg", ["defg"]),
        (r"error: (?P<what>no such file|no folder) at", ["no such file", "no folder"]),
        (r"error: (?:fatal: )?(?P<what>no such file|x)", ["error: "]),
        (r"colours? wrong", ["colour"]),
        (r"\[exit [1-9]\d* after ", [" after "]),
        (r"x{3}long enough", ["long enough"]),
        (r"[^]|]abcd", ["abcd"]),
        (r"ab+cd\.efg", ["cd.efg"]),
        (r"x[[:digit:]]code: y", ["code: y"]),
        (r"[]abc]wxyz", ["wxyz"]),
        (r"[^]]wxyz", ["wxyz"]),
        (r"\x41bcd|\x{e9}fgh", ["bcd", "fgh"]),
        (r"ab\pNcde|ab\p{Greek}cdef", ["cde", "cdef"]),
        (r"ab\101cde", ["cde"]),
        ("foo{", ["foo"]),
        ("fooo{2}", ["foo"]),
        (r"^(?:\S+ )?(?:[\w.]*Error: |FATAL:? )(?P<what>.+)", ["Error: ", "FATAL"]),
    ],
)
def test_the_longest_fixed_text_of_each_alternative(pattern: str, texts: list[str]):
    assert [literal.text for literal in literals(pattern)] == texts


def test_case_may_be_folded():
    assert literals("(?i)Out Of Memory") == [FixedText("Out Of Memory", True)]


@pytest.mark.parametrize("pattern", ["", "a.", r"\d+", "(?:er|failure)", "(?:error|failure)?", "long enough|ab"])
def test_a_pattern_without_fixed_text_is_refused(pattern: str):
    with pytest.raises(ValueError, match="no fixed text"):
        literals(pattern)


@pytest.mark.parametrize("pattern", ["(?is)some code", "ab(?i)cdef", "(?i:abc)def|ghi", r"\Qa.b(c\E", "(?i)größe"])
def test_a_pattern_of_which_the_text_is_unknown_is_refused(pattern: str):
    with pytest.raises(ValueError, match=r"\(\?i\)"):
        literals(pattern)


@pytest.mark.slow
def test_every_bundled_pattern_contains_its_text_where_it_matches():
    from reprokit.explain.load import bundled

    for rule in bundled()[0]:
        for pattern in rule.patterns:
            match = re.search(pattern, rule.example)
            if match:
                found = match[0].lower()
                assert any(literal.text.lower() in found for literal in literals(pattern)), (rule.id, pattern)
