from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.bundle.tools.tool import ToolJob
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text

RECIPE = """\
name: x
paper: {{title: "{title}", venue: V, year: 2020, licence: MIT}}
variants:
  v:
    base: debian:12
    mounts: [{{source: results/data, target: /data}}]
    ports: [8888]
    requires: {{gpu: {gpu}, memory: 3GiB, disk: 5GiB, compute_capability: ["8.0"], driver: "470.57.02"}}
"""


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., ToolJob]:
    """`job(gpu="none", title="T", folder="ws")`: a variant, and its workspace with a folder that it mounts."""

    def make(gpu: str = "none", title: str = "T", folder: str = "ws") -> ToolJob:
        workspace = tmp_path / folder
        (workspace / "results" / "data").mkdir(parents=True, exist_ok=True)
        recipe = load_text(RECIPE.format(gpu=gpu, title=title), "x.yaml", "x")
        return ToolJob(Target(recipe, "v", Path("x.yaml")), workspace.resolve(), "1234:1234")

    return make
