"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(wrong: str, right: Iterable[str]) -> str:
    """`"; did you mean X?"`, or nothing if none is similar."""
    found = difflib.get_close_matches(wrong, list(right), n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else ""
