"""The repository's own Python code: what it imports, and whether it is a test."""

from __future__ import annotations

import re

from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.python_imports import import_statements

MOST = 1 << 20
# As pytest collects. Modules of layers and tools have such names, too.
_TEST_FILE = re.compile(r"test_.+\.py|.+_test\.py")
_TEST = re.compile(r"^[ \t]*(?:async )?def test", re.MULTILINE)


def reads(path: str, size: int) -> bool:
    return path.endswith(".py") and path.rpartition("/")[2] != "setup.py"


def read(file: SourceFile) -> Statements:
    yield from import_statements(file)
    if _TEST_FILE.fullmatch(file.name) and (test := _TEST.search(file.text)):
        yield file.states("test", "pytest", file.text.count("\n", 0, test.start()) + 1)
