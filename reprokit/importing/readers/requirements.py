"""`requirements*.txt` and files that they name with -r and -c."""

from __future__ import annotations

from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.requirement_lines import requirement_statements

MOST = 1 << 20


def reads(path: str, size: int) -> bool:
    folder, _, name = path.rpartition("/")
    of_requirements = "requirement" in name or folder.rpartition("/")[2] == "requirements"
    return name.endswith((".txt", ".in", ".pip")) and (of_requirements or name.startswith("constraints"))


def read(file: SourceFile) -> Statements:
    yield from requirement_statements(file, constraints=file.name.startswith("constraints"))
