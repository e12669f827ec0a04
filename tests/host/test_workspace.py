from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.host.workspace import locate, prepare
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
    root = locate("paper", paper.path)
    assert prepare(paper, print) == root
    assert root.parent == tmp_path / "home" / "workspaces" and root.name.startswith("paper-")
    assert (root / "a/b").is_dir() and (root / "link/x").is_dir()


def test_a_workspace_where_the_user_stands_comes_first(paper, tmp_path):
    here = tmp_path / "workspaces" / "paper"
    here.mkdir(parents=True)
    assert prepare(paper, print) == here


def test_a_link_out_of_the_workspace_is_not_followed(paper, tmp_path):
    root = locate("paper", paper.path)
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
    assert sorted(p.name for p in copy.parent.iterdir()) == [f".{copy.name}.copied.json", copy.name]


def test_a_place_that_cannot_be_written(paper, tmp_path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(UsageError, match="the workspace cannot be written") as raised:
        prepare(paper, print)
    assert "REPROKIT_HOME" in raised.value.hint


def test_recipes_of_one_name_in_two_checkouts_share_no_folder(paper, tmp_path, monkeypatch):
    other = tmp_path / "other"
    (other / "recipes").mkdir(parents=True)
    (other / "recipes" / "paper.yaml").write_text(RECIPE)
    (prepare(paper, print) / "precious").write_text("mine")
    monkeypatch.chdir(other)
    theirs = target("paper")
    assert prepare(theirs, print).parent == tmp_path / "home" / "workspaces"
    assert not (prepare(theirs, print) / "precious").exists()
    # A link to the first one's file is not the first one: it may have another lock beside it.
    link = tmp_path / "paper.yaml"
    link.symlink_to(paper.path)
    assert not (prepare(target(str(link)), print) / "precious").exists()


def test_reprokits_own_recipe_has_the_plain_name(paper, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path)
    assert locate("paper", paper.path) == tmp_path / "home" / "workspaces" / "paper"


@pytest.mark.parametrize("configured", [False, True])
def test_a_workspace_of_an_earlier_version_is_named_with_the_commands_that_settle_whose_it_is(
    paper, tmp_path, monkeypatch, configured
):
    if configured:
        monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
        (tmp_path / "config.yaml").write_text(f"workspace_roots: [{tmp_path / 'disk'}]\n")
        (tmp_path / "disk").mkdir()
    earlier = tmp_path / ("disk" if configured else "home/workspaces") / "paper"
    earlier.mkdir(parents=True)
    (earlier / "precious").write_text("mine")
    with pytest.raises(UsageError) as error:
        prepare(paper, print)
    assert error.value.where == str(earlier)
    move, start = (line.partition(": ")[2] for line in error.value.hint.splitlines())
    subprocess.run(move, shell=True, check=True)
    assert (prepare(paper, print) / "precious").read_text() == "mine"
    assert start == f"mkdir {locate('paper', paper.path)}"


def test_the_real_path_is_printed_when_it_is_made(paper, capsys):
    made = prepare(paper, print)
    printed, hint = capsys.readouterr().out.splitlines()
    assert printed == f"made the workspace {made.resolve()}"
    prepare(paper, print)
    assert capsys.readouterr().out == ""
    (made / "mine").touch()
    subprocess.run(hint.partition(": ")[2], shell=True, check=True)
    assert prepare(paper, print) == Path("workspaces/paper").resolve() and Path("workspaces/paper/mine").exists()
    assert capsys.readouterr().out == ""
