"""What modules import: none imports itself through others, and library modules print nothing (ruff refuses `print`)."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import grimp

from tests.support.paths import ROOT

PACKAGE = ROOT / "reprokit"
# Besides the verbs, displays of progress and tables may print. All others return data, or call `notify`.
PRINTING = {"cli.py", "display.py", "tables.py"}
PRINTERS = {"console", "document", "dump", "echo"}


def test_modules_can_be_sorted_by_their_imports():
    graph = grimp.build_graph("reprokit", exclude_type_checking_imports=True, cache_dir=None)
    sorter = graphlib.TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    sorter.prepare()  # raises CycleError, which names the modules
    assert len(graph.modules) > 100


def prints(path: Path) -> bool:
    """Whether a module imports what prints."""
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    names = {(node.module, name.name) for node in imports for name in node.names}
    printers = {("reprokit.untrusted.terminal", name) for name in PRINTERS}
    return not names.isdisjoint({*printers, ("reprokit.untrusted", "terminal")})


def test_only_verbs_and_displays_print(tmp_path: Path):
    printing = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if prints(path)}
    assert {str(path) for path in printing if path.parts[0] != "commands"} == PRINTING
    for line in ("from reprokit.untrusted.terminal import echo", "from reprokit.untrusted import terminal"):
        (tmp_path / "module.py").write_text(f"def f():\n    {line}\n")
        assert prints(tmp_path / "module.py")
