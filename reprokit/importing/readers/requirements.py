"""`requirements*.txt` and files that they name with -r and -c."""

from __future__ import annotations

from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.requirement_lines import requirement_statements


def read(file: SourceFile) -> Statements:
    yield from requirement_statements(file, constraints=file.name.startswith("constraints"))
