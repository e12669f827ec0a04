"""The verbs, called as a user calls them but in this process."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from reprokit import cli


@pytest.fixture
def call(tmp_path, monkeypatch):
    """`call("list", "--json")` in an empty folder; errors come as `result.exception`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REPROKIT_RECIPES", raising=False)
    return lambda *args: CliRunner().invoke(cli.app, [*args])


@pytest.fixture
def recipe(tmp_path):
    """`recipe("x", text)` writes recipes/x.yaml where the user stands."""

    def write(name: str, variants: str) -> None:
        head = f"name: {name}\npaper: {{title: '[b]A [/b] {name}', venue: V, year: 2020, licence: MIT}}\n"
        (tmp_path / "recipes").mkdir(exist_ok=True)
        (tmp_path / "recipes" / f"{name}.yaml").write_text(head + variants)

    return write
