"""CONTRIBUTING.md: its examples work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from reprokit.image.render import render, template_environment
from tests.support.paths import ROOT
from tests.support.rendering import target

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def example(heading: str, language: str) -> str:
    """The one example of this language below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (code,) = re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    return str(code)


def test_the_verb_prints_the_folder_of_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspaces/taco").mkdir(parents=True)
    module: dict = {}
    exec(example("Add a verb", "python"), module)
    app = typer.Typer()
    app.command()(module["where"])
    result = CliRunner().invoke(app, ["taco"], catch_exceptions=False)
    assert result.output == f"{tmp_path}/workspaces/taco\n"


def test_the_rule_is_one_of_the_rules() -> None:
    rules = (ROOT / "reprokit/compat/rules/flash_attn.py").read_text(encoding="utf-8")
    assert example("Add a compat rule", "python") in rules


@pytest.mark.slow
def test_the_block_renders(tmp_path: Path) -> None:
    """As a block of the user's own: reprokit's own blocks have the same form."""
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks/topology.j2").write_text(example("Add a block", "jinja"), encoding="utf-8")
    dockerfile = render(target(tmp_path, blocks=[{"topology": {"graphics": True}}])).dockerfile
    assert "lstopo-no-graphics" in dockerfile and "hwloc-nox" not in dockerfile


def test_the_block_of_a_new_kind_renders() -> None:
    """Its `ARG` is for reprokit's own blocks alone."""
    text = template_environment().from_string(example("Add a kind of input", "jinja")).render(block="left-pad")
    assert '"$REPROKIT_NPM"left-pad-1.3.0.tgz' in text


def test_the_files_that_it_names_exist() -> None:
    """But not those that one adds: words in capitals stand for their names."""
    named = re.findall(r"`((?:reprokit|tests|images|docs|recipes|\.ci)/[\w./-]*(?:/|\.(?:py|yaml|txt|j2)))`", PAGE)
    missing = [name for name in named if not re.search(r"[A-Z]{3}", name) and not (ROOT / name).exists()]
    assert len(named) > 10 and missing == []
