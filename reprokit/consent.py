"""The user's consent to unexpected actions, by a question at a terminal or by an option."""

from __future__ import annotations

import sys

from reprokit.errors import UsageError
from reprokit.untrusted.terminal import confirm


def require(what: str, option: str, given: bool, where: str = "") -> None:
    """Return if the `option` was `given` or the user agrees to `what`. Raises UsageError."""
    if given:
        return
    if sys.stdin.isatty() and sys.stderr.isatty() and confirm(f"{what}. Continue?"):
        return
    raise UsageError(what, where, f"nothing was changed; {option} allows it")
