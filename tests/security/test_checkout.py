"""Recipes and locks of a stranger's checkout that are no plain files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

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
