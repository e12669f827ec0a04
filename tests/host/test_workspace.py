"""Workspaces: where they are, what is made in them, and their renewal after reprokit was upgraded."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from reprokit import paths
from reprokit.bench import extension
from reprokit.display import reporting
from reprokit.errors import UsageError
from reprokit.host.workspace import copy, locate, prepare, renew
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


def test_folders_are_made_and_the_real_path_is_printed_when_it_is(paper, tmp_path, reported):
    root = locate("paper", paper.path)
    assert prepare(paper) == root
    assert root.parent == tmp_path / "home" / "workspaces" and root.name.startswith("paper-")
    assert (root / "a/b").is_dir() and (root / "link/x").is_dir()
    printed, hint = "\n".join(reported).splitlines()
    reported.clear()
    assert printed == f"made the workspace {root.resolve()}"
    prepare(paper)
    assert not reported
    (root / "mine").touch()
    subprocess.run(hint.partition(": ")[2], shell=True, check=True)
    # A workspace where the user stands comes first.
    assert prepare(paper) == Path("workspaces/paper").resolve() and Path("workspaces/paper/mine").exists()
    assert not reported


def test_a_link_out_of_the_workspace_is_not_followed(paper, tmp_path):
    root = locate("paper", paper.path)
    root.mkdir(parents=True)
    (root / "link").symlink_to("/etc")
    with pytest.raises(UsageError, match="a link is in the way"):
        prepare(paper)


def test_a_bundled_workspace_is_copied_once(paper, tmp_path, monkeypatch):
    bundled = tmp_path / "package" / "workspaces" / "paper"
    (bundled / "__pycache__").mkdir(parents=True)
    (bundled / ".ruff_cache").mkdir()
    (bundled / "code.py").write_text("1")
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path / "package")
    copy = prepare(paper)
    assert sorted(p.name for p in copy.iterdir()) == ["a", "code.py", "link"]
    (copy / "code.py").write_text("mine")
    assert (prepare(paper) / "code.py").read_text() == "mine"
    assert sorted(p.name for p in copy.parent.iterdir()) == [f".{copy.name}.copied.json", copy.name]


def test_a_place_that_cannot_be_written(paper, tmp_path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(UsageError, match="the workspace cannot be written") as raised:
        prepare(paper)
    assert "REPROKIT_HOME" in raised.value.hint


def test_recipes_of_one_name_in_two_checkouts_share_no_folder(paper, tmp_path, monkeypatch):
    other = tmp_path / "other"
    (other / "recipes").mkdir(parents=True)
    (other / "recipes" / "paper.yaml").write_text(RECIPE)
    (prepare(paper) / "precious").write_text("mine")
    monkeypatch.chdir(other)
    theirs = target("paper")
    assert prepare(theirs).parent == tmp_path / "home" / "workspaces"
    assert not (prepare(theirs) / "precious").exists()
    # A link to the first one's file is not the first one: it may have another lock beside it.
    link = tmp_path / "paper.yaml"
    link.symlink_to(paper.path)
    assert not (prepare(target(str(link))) / "precious").exists()


def test_reprokits_own_recipe_has_the_plain_name(paper, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path)
    assert locate("paper", paper.path) == tmp_path / "home" / "workspaces" / "paper"


@pytest.fixture
def original(tmp_path):
    folder = tmp_path / "package" / "paper"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "kernel.cu").write_text("old")
    (folder / "run.py").write_text("old")
    (folder / "run.py").chmod(0o755)
    (folder / "gone.py").write_text("old")
    return folder


@pytest.fixture
def mine(original, tmp_path):
    folder = tmp_path / "home" / "paper"
    folder.parent.mkdir()
    copy(original, folder)
    return folder


@pytest.fixture
def upgraded(mine, original):
    """The package after the copy was made."""
    (original / "src" / "kernel.cu").write_text("new")
    (original / "run.py").write_text("new")
    (original / "gone.py").unlink()
    (original / "more").mkdir()
    (original / "more" / "added.py").write_text("new")
    (original / "run.so").write_text("built on another machine")
    return original


def state(folder):
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


NEW = {"more/added.py": "new", "run.py": "new", "src/kernel.cu": "new"}


def renewed(mine, original):
    notes: list[str] = []
    with reporting(notes.append):
        renew(mine, original)
    return notes


def test_what_the_user_left_alone_is_renewed(mine, upgraded):
    assert renewed(mine, upgraded) == [f"workspace {mine}: 4 files renewed from this version of reprokit"]
    assert state(mine) == NEW
    assert (mine / "run.py").stat().st_mode & 0o777 == 0o755
    assert renewed(mine, upgraded) == []


def test_what_the_user_made_of_it_stays(mine, upgraded):
    (mine / "run.py").write_text("mine")
    (mine / "src" / "kernel.cu").unlink()
    (mine / "notes.txt").write_text("mine")
    (mine / "more").write_text("mine")
    said = renewed(mine, upgraded)
    assert state(mine) == {"more": "mine", "notes.txt": "mine", "run.py": "mine"}
    assert said == [
        f"workspace {mine}: 1 file renewed from this version of reprokit",
        f"kept your changes, which differ from {upgraded}: more/added.py, run.py, src/kernel.cu",
    ]
    assert renewed(mine, upgraded) == []


def test_a_change_that_upstream_made_too_is_no_difference(mine, upgraded):
    (mine / "run.py").write_text("new")
    assert "kept" not in " ".join(renewed(mine, upgraded))
    (upgraded / "run.py").write_text("newer")
    assert renewed(mine, upgraded) == [f"workspace {mine}: 1 file renewed from this version of reprokit"]
    assert (mine / "run.py").read_text() == "newer"


@pytest.mark.parametrize("link", ["src", "more"])
def test_nothing_is_written_through_a_link_that_a_container_left(mine, upgraded, tmp_path, link):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kernel.cu").write_text("old")
    shutil.rmtree(mine / link, ignore_errors=True)
    (mine / link).symlink_to(outside)
    said = renewed(mine, upgraded)
    assert state(outside) == {"kernel.cu": "old"}
    assert f"{link}/" in said[-1]


def test_a_workspace_of_the_users_own_is_left_alone(original, mine, tmp_path):
    own = tmp_path / "home" / "own"
    shutil.copytree(original, own)
    (original / "run.py").write_text("new")
    assert renewed(own, original) == []
    assert (own / "run.py").read_text() == "old"
    # So is a copy that another process has made meanwhile.
    (mine / "run.py").write_text("mine")
    copy(original, mine)
    assert (mine / "run.py").read_text() == "mine" and [each.name for each in mine.parent.glob(".paper-*")] == []


def test_a_renewal_that_fails_is_tried_again(mine, upgraded, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.rename", full)
        assert renewed(mine, upgraded) == [
            f"the workspace {mine} is from another version of reprokit and cannot be renewed: No space left on device"
        ]
    assert [p.name for p in mine.rglob(".*")] == []
    assert renewed(mine, upgraded)
    assert state(mine) == NEW


def test_the_extension_that_is_benchmarked_is_this_reprokits(tmp_path, monkeypatch):
    package, here = tmp_path / "package", tmp_path / "here"
    code = package / "workspaces" / "fused_attention" / "fused_attention" / "op.py"
    code.parent.mkdir(parents=True)
    code.write_text("old")
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(paths, "data_root", lambda: package)
    place = locate("fused_attention", package / "recipes" / "fused-attention.yaml")
    place.parent.mkdir(parents=True)
    copy(code.parent.parent, place)
    code.write_text("new")
    assert extension.sources() == {"fused_attention/op.py": b"new"}
    # A copy that its user removed is not made anew of what was added since.
    shutil.rmtree(place)
    code.with_name("added.py").write_text("new")
    assert sorted(extension.sources()) == ["fused_attention/added.py", "fused_attention/op.py"]
    assert not place.exists()
