"""What a reader of a format offers. Every module of `readers/` is one."""

from __future__ import annotations

from typing import Protocol

from reprokit.importing.model import SourceFile, Statements


class FormatReader(Protocol):
    """Reads one format. `MOST` is the largest file in bytes that it reads."""

    MOST: int

    def reads(self, path: str, size: int) -> bool:
        """Whether a file is of this format."""
        ...

    def read(self, file: SourceFile) -> Statements:
        """What a file states. Raises UsageError or ValueError for a file that is not valid."""
        ...
