from __future__ import annotations

import pytest

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.host.workspace import prepare
from reprokit.recipe.find import target

RECIPE = """
name: paper
paper: {title: T, venue: V, year: 2024, licence: none}
variants:
  cpu:
    base: "debian:12"
    mounts: [{source: a/b, target: /b}, {source: link/x, target: /x}]
"""


@pytest.fixture
def paper(tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("REPROKIT_RECIPES", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "paper.yaml").write_text(RECIPE)
    return target("paper")


def test_folders_are_made(paper, tmp_path):
    root = tmp_path / "home" / "workspaces" / "paper"
    assert prepare(paper, print) == root
    assert (root / "a/b").is_dir() and (root / "link/x").is_dir()


def test_a_workspace_where_the_user_stands_comes_first(paper, tmp_path):
    here = tmp_path / "workspaces" / "paper"
    here.mkdir(parents=True)
    assert prepare(paper, print) == here


def test_a_link_out_of_the_workspace_is_not_followed(paper, tmp_path):
    root = tmp_path / "home" / "workspaces" / "paper"
    root.mkdir(parents=True)
    (root / "link").symlink_to("/etc")
    with pytest.raises(UsageError, match="a link is in the way"):
        prepare(paper, print)


def test_a_bundled_workspace_is_copied_once(paper, tmp_path, monkeypatch):
    bundled = tmp_path / "package" / "workspaces" / "paper"
    (bundled / "__pycache__").mkdir(parents=True)
    (bundled / "code.py").write_text("1")
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path / "package")
    copy = prepare(paper, print)
    assert sorted(p.name for p in copy.iterdir()) == ["a", "code.py", "link"]
    (copy / "code.py").write_text("mine")
    assert (prepare(paper, print) / "code.py").read_text() == "mine"
    assert sorted(p.name for p in copy.parent.iterdir()) == [".paper.copied.json", "paper"]


def test_a_place_that_cannot_be_written(paper, tmp_path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(UsageError, match="cannot make the workspace"):
        prepare(paper, print)
