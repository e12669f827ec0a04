"""Regular expressions of recipes, by RE2: linear time and bounded memory, whatever the pattern and the text.

Syntax: https://github.com/google/re2/wiki/Syntax. It has no lookaround and no backreferences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprokit.untrusted.limits import PATTERN_MEMORY

if TYPE_CHECKING:
    import re


def compiled(pattern: str, *, multiline: bool = False) -> re.Pattern[str]:
    """The compiled pattern, with the methods of `re.Pattern`. Raises ValueError with RE2's reason."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY
    try:
        return re2.compile(f"(?m){pattern}" if multiline else pattern, options)
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
