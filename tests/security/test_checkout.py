"""Recipes and locks of a stranger's checkout that are no plain files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from reprokit.bundle.tools import TOOLS
from reprokit.bundle.tools.tool import ToolJob
from reprokit.bundle.tools.tool import write as write_tool
from reprokit.errors import UsageError
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text
from reprokit.supply.lock.file import write
from reprokit.supply.lock.model import Lock
from tests.support.verbs import run_verb

RECIPE = """\
name: paper
paper: {title: T, venue: V, year: 2020, licence: MIT}
variants: {cpu: {base: "debian:12"}}
"""


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    return run_verb("lock", "--check", "paper", cwd=folder, env={"REPROKIT_HOME": str(folder / "home")})


@pytest.mark.parametrize("plant", [pipe, endless])
@pytest.mark.parametrize("name", ["paper.yaml", "paper.lock.yaml"])
def test_what_never_ends_is_not_waited_for(tmp_path: Path, plant, name):
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "paper.yaml").write_text(RECIPE)
    (folder / name).unlink(missing_ok=True)
    plant(folder / name)
    refused = check(tmp_path)
    assert refused.returncode == 2, refused
    assert f"error: this is no regular file ({folder / name})" in refused.stderr
    (folder / name).unlink()
    (folder / "paper.yaml").write_text(RECIPE)
    assert "paper:cpu: no lock" in check(tmp_path).stdout


def test_a_lock_is_written_through_no_link(tmp_path: Path):
    other = tmp_path / "other"
    other.write_text("the user's")
    (tmp_path / "paper.lock.yaml").symlink_to(other)
    write(tmp_path / "paper.lock.yaml", Lock(recipe="paper", variants={}))
    assert other.read_text() == "the user's" and not (tmp_path / "paper.lock.yaml").is_symlink()


@pytest.mark.parametrize("tool", TOOLS)
def test_files_for_other_tools_follow_no_link(tmp_path, monkeypatch, tool):
    checkout, outside = tmp_path / "checkout", tmp_path / "outside"
    outside.mkdir()
    (checkout / "ws").mkdir(parents=True)
    monkeypatch.chdir(checkout)
    text = "name: x\npaper: {title: T, venue: V, year: 2024, licence: none}\nvariants: {v: {base: 'debian:12'}}\n"
    job = ToolJob(Target(load_text(text, "x.yaml", "x"), "v", Path("x.yaml")), checkout / "ws", "1234:1234")
    usual = TOOLS[tool].usual_path(job)
    planted = usual if usual.parent == Path() else usual.parent
    planted.symlink_to(outside / planted.name if planted == usual else outside)
    with pytest.raises(UsageError, match="a link is in the way"):
        write_tool(TOOLS[tool], job, None)
    assert not list(outside.iterdir())
    planted.unlink()  # the control
    assert write_tool(TOOLS[tool], job, None)[0] == usual and usual.read_bytes()
    assert write_tool(TOOLS[tool], job, outside / "x")[0].is_file()
