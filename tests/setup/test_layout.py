"""Where tests are: beside the module that they test, with shared code in tests.support alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_no_file_imports_a_test_or_a_private_name(path: Path):
    for module, name in imported(path):
        assert not module.startswith("."), f"relative import of {module}"
        own = module.split(".")
        assert own[0] != "tests" or own[1] == "support", f"{module} is not in tests.support"
        assert not name.startswith("_") or name.endswith("__"), f"{module}.{name} is private"


def test_a_private_name_would_be_found(tmp_path: Path):
    (tmp_path / "test_x.py").write_text("from tests.bundle.test_load import made\nfrom reprokit.engine import _call\n")
    for line in (0, 1):
        file = tmp_path / f"{line}.py"
        file.write_text((tmp_path / "test_x.py").read_text().splitlines()[line])
        with pytest.raises(AssertionError, match=r"not in tests.support|is private"):
            test_no_file_imports_a_test_or_a_private_name(file)
