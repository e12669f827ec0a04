"""The package goes into containers as old as Python 3.6 and torch 1.8."""

from __future__ import annotations

import ast
import subprocess

import pytest
from torch.utils import cpp_extension

NEWER_MODULES = {"dataclasses", "contextvars", "importlib.metadata", "importlib.resources", "graphlib", "tomllib"}
# Sources whose branches for a version of torch compile: this torch still has the names that they use. Together they
# reach every branch. One file for each version: torch's headers take most of the time.
BRANCHES = {108: ["ops.cpp", "autograd.cpp", "backward.cpp"], 113: ["ops.cpp"], 200: ["ops.cpp"]}


def test_syntax_and_modules_of_python(workspace):
    files = sorted((workspace / "fused_attention").rglob("*.py"))
    assert files
    for file in files:
        tree = ast.parse(file.read_text(), filename=str(file), feature_version=(3, 6))
        imported = {
            name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        }
        assert not imported & (NEWER_MODULES | {"__future__"}), file
        keywords = {keyword.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for keyword in node.keywords}
        assert not keywords & {"capture_output", "text"}, f"{file}: subprocess of Python 3.7"


@pytest.mark.long
@pytest.mark.parametrize("version", BRANCHES)
def test_branches_for_torch(csrc, tmp_path, version):
    (tmp_path / "all.cpp").write_text("".join(f'#include "{source}"\n' for source in BRANCHES[version]))
    includes = [f"-I{path}" for path in (csrc, *cpp_extension.include_paths())]
    flags = ["-std=c++20", "-fsyntax-only", f"-DFUSED_ATTENTION_TORCH={version}", *includes]
    done = subprocess.run(["g++", *flags, tmp_path / "all.cpp"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_version_of_torch_must_be_given(csrc):
    done = subprocess.run(["g++", "-E", "-o", "/dev/null", "compat.h"], cwd=csrc, capture_output=True, text=True)
    assert "compile with -DFUSED_ATTENTION_TORCH" in done.stderr
