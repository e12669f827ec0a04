"""A workspace that came with reprokit, after reprokit was upgraded: renewed, but for what is the user's."""

from __future__ import annotations

import shutil

import pytest

from reprokit import paths
from reprokit.bench import extension
from reprokit.host.workspace import copy, locate, renew


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
    said: list[str] = []
    renew(mine, original, said.append)
    return said


def test_a_copy_that_another_process_has_made_meanwhile_is_kept(mine, original):
    (mine / "run.py").write_text("mine")
    copy(original, mine)
    assert (mine / "run.py").read_text() == "mine" and [each.name for each in mine.parent.glob(".paper-*")] == []


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


def test_a_workspace_of_the_users_own_is_left_alone(original, tmp_path):
    mine = tmp_path / "home" / "paper"
    shutil.copytree(original, mine)
    (original / "run.py").write_text("new")
    assert renewed(mine, original) == []
    assert (mine / "run.py").read_text() == "old"


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
    assert extension.sources(print) == {"fused_attention/op.py": b"new"}
    # A copy that its user removed is not made anew of what was added since.
    shutil.rmtree(place)
    code.with_name("added.py").write_text("new")
    assert sorted(extension.sources(print)) == ["fused_attention/added.py", "fused_attention/op.py"]
    assert not place.exists()
