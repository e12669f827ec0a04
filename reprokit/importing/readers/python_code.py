"""The repository's own Python code: what it imports."""

from __future__ import annotations

from reprokit.importing.python_imports import import_statements

MOST = 1 << 20


def reads(path: str, size: int) -> bool:
    return path.endswith(".py") and path.rpartition("/")[2] != "setup.py"


read = import_statements
