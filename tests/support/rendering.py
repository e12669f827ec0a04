"""Variants for the tests of rendering."""

from __future__ import annotations

from pathlib import Path

import yaml

from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text

PAPER = {"title": "T", "venue": "V", "year": 2020, "licence": "MIT"}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def target(folder: Path, **variant) -> Target:
    """A target whose only variant has these fields, in a file of `folder`."""
    text = yaml.safe_dump({"name": "paper", "paper": PAPER, "variants": {"v": {"base": "debian:12", **variant}}})
    file = folder / "paper.yaml"
    file.write_text(text, encoding="utf-8")
    return Target(load_text(text, str(file), "paper"), "v", file)


def source(name: str, path: str, **more) -> dict:
    return {"name": name, "git": f"https://example.org/{name}", "commit": COMMIT, "path": path, **more}
