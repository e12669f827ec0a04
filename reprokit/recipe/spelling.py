"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(wrong: str, right: Iterable[str], least: float = 0.5) -> str:
    """`"; did you mean X?"`, or nothing if none is similar; `least` is the share of letters in common. Ignores case."""
    names = {name.lower(): name for name in right}
    match = difflib.get_close_matches(wrong.lower(), list(names), n=1, cutoff=least)
    return f"; did you mean {names[match[0]]}?" if match else ""
