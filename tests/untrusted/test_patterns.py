"""Patterns of recipes: no pattern and no text takes long or much memory."""

from __future__ import annotations

import pytest

from reprokit.untrusted.patterns import compiled


def test_groups_and_lines():
    match = compiled(r"^Time: (?P<value>\S+) ms$", multiline=True).search("é\nTime: 7.5 ms\n")
    assert match and match["value"] == "7.5" and match.groupdict() == {"value": "7.5"}
    assert compiled("^b").search("a\nb") is None


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}$", "(a?){30}a{30}b"])
def test_what_explodes_under_backtracking_is_linear(pattern: str):
    """`re` backtracks: each of these patterns would take it longer than a test may."""
    assert compiled(pattern, multiline=True).search("a" * 1_000_000 + "!") is None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)b", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("((a{100}){100}){100}", "invalid repetition size"),
        ("(((\\pL{9}){10}){11})", "pattern too large"),
        ("(", "missing )"),
    ],
)
def test_what_is_refused_is_named(pattern: str, reason: str):
    with pytest.raises(ValueError, match=reason.replace(")", r"\)")):
        compiled(pattern)
