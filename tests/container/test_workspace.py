from __future__ import annotations

from pathlib import Path

import pytest

from reprokit import paths
from reprokit.container.spec import Mount
from reprokit.container.workspace import links_of, require_apart, require_source, workspace_mount
from reprokit.errors import UsageError
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
    assert workspace_mount(paper, print) == Mount(str(root), "/workspace")
    assert (root / "a/b").is_dir() and (root / "link/x").is_dir()


def test_other_paths_are_links_but_for_what_the_user_mounts(paper):
    workspace = Mount("/w", "/workspace")
    assert links_of(paper, [workspace]) == {"/b": "/workspace/a/b", "/x": "/workspace/link/x"}
    assert links_of(paper, [workspace, Mount("/d", "/b"), Mount("/d", "/x/below")]) == {"/x": "/workspace/link/x"}


@pytest.mark.parametrize(
    ("mounts", "others"),
    [
        ([Mount("/w", "/workspace"), Mount("/w/data", "/data")], []),
        ([Mount("/w", "/workspace"), Mount("/", "/host")], []),
        ([Mount("/w", "/workspace")], [("other", Mount("/", "/host"))]),
        ([Mount("/w", "/workspace")], [("other", Mount("/w/data", "/data", True))]),
    ],
)
def test_a_source_that_a_container_could_replace(mounts, others):
    with pytest.raises(UsageError, match="could replace") as error:
        require_apart(mounts, others)
    assert error.value.hint


def test_sources_that_no_container_can_replace():
    mounts = [Mount("/w", "/workspace"), Mount("/wide", "/wide"), Mount("/", "/host", True)]
    others = [("other", Mount("/w", "/workspace")), ("one", Mount("/d", "/d")), ("two", Mount("/d/e", "/e"))]
    require_apart(mounts, others)


def test_a_workspace_where_the_user_stands_comes_first(paper, tmp_path):
    here = tmp_path / "workspaces" / "paper"
    here.mkdir(parents=True)
    assert workspace_mount(paper, print).source == str(here)


def test_a_link_out_of_the_workspace_is_not_followed(paper, tmp_path):
    root = tmp_path / "home" / "workspaces" / "paper"
    root.mkdir(parents=True)
    (root / "link").symlink_to("/etc")
    with pytest.raises(UsageError, match="a link is in the way"):
        workspace_mount(paper, print)


def test_a_bundled_workspace_is_copied_once(paper, tmp_path, monkeypatch):
    bundled = tmp_path / "package" / "workspaces" / "paper"
    (bundled / "__pycache__").mkdir(parents=True)
    (bundled / "code.py").write_text("1")
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path / "package")
    copy = Path(workspace_mount(paper, print).source)
    assert sorted(p.name for p in copy.iterdir()) == ["a", "code.py", "link"]
    (copy / "code.py").write_text("mine")
    assert (Path(workspace_mount(paper, print).source) / "code.py").read_text() == "mine"
    assert sorted(p.name for p in copy.parent.iterdir()) == [".paper.copied.json", "paper"]


def test_a_source_that_is_missing(tmp_path):
    require_source(Mount(str(tmp_path), "/x"))
    with pytest.raises(UsageError) as error:
        require_source(Mount(str(tmp_path / "no"), "/x"))
    assert error.value.hint == f"mkdir -p {tmp_path / 'no'}"
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="behind a link") as error:
        require_source(Mount(str(tmp_path / "link"), "/x"))
    assert error.value.hint == f"mount {tmp_path} itself"


def test_a_place_that_cannot_be_written(paper, tmp_path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(UsageError, match="cannot make the workspace"):
        workspace_mount(paper, print)
