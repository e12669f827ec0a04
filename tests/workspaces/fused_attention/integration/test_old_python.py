"""The package goes into containers as old as Python 3.6."""

from __future__ import annotations

import ast

import pytest

pytestmark = pytest.mark.compiler

NEWER_MODULES = {"dataclasses", "contextvars", "importlib.metadata", "importlib.resources", "graphlib", "tomllib"}


def test_syntax_and_modules(workspace):
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
