"""Library modules print nothing: they return data, or call the `notify` that they are given."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PACKAGE = ROOT / "reprokit"
# Besides the verbs, displays of progress and tables may print.
PRINTING = {"cli.py", "display.py", "tables.py"}
PRINTERS = {"console", "document", "dump", "echo"}


def printers(path: Path) -> set[str]:
    """What a module imports to print. `print` itself is refused by ruff."""
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    names = {name.name for node in imports if node.module == "reprokit.untrusted.text" for name in node.names}
    whole = any(node.module == "reprokit.untrusted" and name.name == "text" for node in imports for name in node.names)
    return (names & PRINTERS) | ({"text"} if whole else set())


@pytest.mark.slow
def test_only_verbs_and_displays_print() -> None:
    found = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if printers(path)}
    assert {name for name in found if not name.startswith("commands/")} == PRINTING


@pytest.mark.parametrize("line", ["from reprokit.untrusted.text import echo", "from reprokit.untrusted import text"])
def test_a_module_that_prints_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(f"def f():\n    {line}\n")
    assert printers(tmp_path / "module.py")
