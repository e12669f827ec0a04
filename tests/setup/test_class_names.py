"""A class name means one thing in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.paths import ROOT


def repeated(package: Path) -> dict[str, list[str]]:
    """Names of classes that more than one class has, with their files."""
    files = defaultdict(list)
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(str(file.relative_to(package)))
    return {name: found for name, found in files.items() if len(found) > 1}


@pytest.mark.slow
def test_no_class_name_is_used_twice():
    assert repeated(ROOT / "reprokit") == {}


def test_a_repeated_name_would_be_found(tmp_path: Path):
    (tmp_path / "a.py").write_text("class Image: ...\nclass Layer: ...\n")
    (tmp_path / "b.py").write_text("def f():\n    class Image: ...\n")
    assert repeated(tmp_path) == {"Image": ["a.py", "b.py"]}
