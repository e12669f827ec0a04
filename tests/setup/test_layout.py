"""Where tests are: beside the module that they test, with shared code in tests.support alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

TESTS = ROOT / "tests"
# Folders of the tests, and what they mirror.
MIRRORED = {
    **{f"workspaces/{name}": f"workspaces/{name}/{name}" for name in ("fused_attention", "operator_fusion")},
    "": "reprokit",
}
# Tests of no single module: of the checkout, of several modules together, of the kernels' C++ and CUDA.
FREE = {"setup", "integration", "kernels", "security"}


def test_a_test_of_a_module_bears_its_name():
    """`test_MODULE.py` or `test_MODULE_ASPECT.py`, in the folder that mirrors the module's."""
    strays = []
    for path in sorted(TESTS.rglob("test_*.py")):
        folder = path.relative_to(TESTS).parent
        if FREE & set(folder.parts):
            continue
        prefix = next(p for p in MIRRORED if folder.is_relative_to(p))
        package = ROOT / MIRRORED[prefix] / folder.relative_to(prefix)
        words = path.stem.removeprefix("test_").split("_")
        names = ("_".join(words[:count]) for count in range(1, len(words) + 1))
        if not any((package / name).is_dir() or (package / f"{name}.py").exists() for name in names):
            strays.append(str(path.relative_to(ROOT)))
    assert strays == []


def imported(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), name.name) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names)


def strays(path: Path) -> list[str]:
    """What a file imports and may not: tests, private names, anything by a relative path."""
    imports = [(module, name) for module, name in imported(path)]
    return [
        f"{path.name}: {module}.{name}"
        for module, name in imports
        if (module.startswith((".", "tests.")) and not module.startswith("tests.support"))
        or (name.startswith("_") and not name.endswith("__"))
    ]


def test_no_file_imports_a_test_or_a_private_name(tmp_path: Path):
    assert [stray for path in sorted(TESTS.rglob("*.py")) for stray in strays(path)] == []
    control = tmp_path / "test_x.py"
    control.write_text("from tests.bundle.test_load import made\nfrom reprokit.engine import _call\nfrom . import x\n")
    assert len(strays(control)) == 3
