"""The log of the last failure, in the state folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from reprokit import paths
from reprokit.errors import UsageError

# The first cause stands near the beginning more often than near the end, so the beginning is kept.
_MOST = 64 << 20


def record(blocks: Iterable[bytes]) -> Path:
    """Keep a failure's log for `reprokit explain --last`, in place of the one before. Raises OSError."""
    path = _path()
    paths.private(path.parent)
    partial = path.with_suffix(".partial")
    left = _MOST
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        for block in blocks:
            file.write(block[:left])
            left -= min(left, len(block))
    partial.replace(path)
    return path


def find() -> Path:
    """The log of the last failure. Raises UsageError where none was recorded."""
    if not _path().is_file():
        raise UsageError("no failure was recorded yet", hint="name a log: `reprokit explain FILE`")
    return _path()


def _path() -> Path:
    return paths.state() / "failures" / "last.log"
