from __future__ import annotations

import pytest

from reprokit.redact import MaskedLines, masking, redact, secret_parts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("index https://me:secret@pkg.example/simple", "index https://pkg.example/simple"),
        ("https://me:it's-secret@pkg.example/simple", "https://pkg.example/simple"),
        ("'https://pkg.example/simple' of 'me@pkg.example'", "'https://pkg.example/simple' of 'me@pkg.example'"),
    ],
)
def test_credentials_of_addresses_are_removed(text: str, shown: str):
    assert redact(text) == shown


@pytest.mark.parametrize(
    ("value", "text", "masked"),
    [
        ("hunter2-long", "a hunter2-long b hunter2-long", "a *** b ***"),
        ("first line\nsecond line\n", "x second line", "x ***"),
        ("one\0two-long\0three", "two-long one", "*** one"),
        ("true", "is true", "is true"),
        (".*+()[a-z]", "hunter2 .*+()[a-z]", "hunter2 ***"),
        ("longer-than-this", "longer-than-that", "longer-than-that"),
        ("tab\tseparated", "tab\tseparated separated", "*** ***"),
    ],
)
def test_values_and_their_lines_are_masked(value: str, text: str, masked: str):
    assert masking([value])(text) == masked
    assert masking(["hunter2", "hunter2-long"])("hunter2-long hunter2") == "*** ***"  # the longer one first


@pytest.mark.parametrize("value", ["", "\n", "12345", "a\nb\nc\nd", "12\x0034", "     x      "])
def test_nothing_of_some_values_can_be_recognised(value: str):
    assert not secret_parts(value)


def test_output_is_masked_by_lines_however_it_arrives():
    out: list[bytes] = []
    lines = MaskedLines(out.append, ["hunter2-long"])
    for byte in b"a hunter2-long \xff\nrest hunter2-long":
        lines.write(bytes([byte]))
    assert b"".join(out) == b"a *** \xff\n"
    lines.finish()
    assert b"".join(out) == b"a *** \xff\nrest ***"
    for _ in range(40):  # a line without an end is bounded
        lines.write(b"x" * (1 << 16))
    assert len(b"".join(out)) > 1 << 20
