"""Regular expressions of recipes, by RE2: linear time and bounded memory for any pattern and text.

Syntax: https://github.com/google/re2/wiki/Syntax. It has no lookaround and no backreferences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reprokit.untrusted.limits import PATTERN_MEMORY, SET_MEMORY

if TYPE_CHECKING:
    import re


def compiled(pattern: str, *, multiline: bool = False) -> re.Pattern[str]:
    """The compiled pattern, with the methods of `re.Pattern`. Raises ValueError with RE2's reason."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY
    try:
        of_re2: re.Pattern[str] = re2.compile(f"(?m){pattern}" if multiline else pattern, options)
        return of_re2
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None


def compiled_bytes(pattern: str) -> re.Pattern[bytes]:
    """The pattern for bytes of any encoding; its text is ASCII. Raises ValueError with RE2's reason."""
    import re2

    compiled(pattern)
    of_re2: re.Pattern[bytes] = re2.compile(pattern.encode(), _bytes_options())
    return of_re2


class PatternSet:
    """Many patterns for bytes, searched for in one pass."""

    def __init__(self, patterns: list[str]) -> None:
        import re2

        self._set = re2.Set.SearchSet(_bytes_options())
        for pattern in patterns:
            self._set.Add(pattern.encode())
        self._set.Compile()

    def search(self, text: bytes) -> list[int]:
        """The numbers of the patterns that match somewhere in `text`."""
        return self._set.Match(text) or []


def _bytes_options() -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = SET_MEMORY
    options.encoding = re2.Options.Encoding.LATIN1
    return options
