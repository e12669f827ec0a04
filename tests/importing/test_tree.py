from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

from reprokit.importing.collect import collect
from reprokit.importing.tree import CommitTree, FolderTree
from reprokit.supply.kinds.git.store import folder_of
from tests.support.stores import fetch

FILES = {"README.md": "# It\n", "lib.py": "import numpy\n", ".gitattributes": "*.md export-ignore\n*.py export-subst\n"}


def test_a_folder_and_its_commit_hold_the_same(repositories, store, tmp_path: Path):
    repositories.make("team/dep", {"x": "1"})
    head = repositories.make("team/tool", FILES, {"lib/dep": ("team/dep", "https://forge.test/team/dep")})
    checkout = FolderTree(repositories.root / "team/tool.git")
    commit = fetch(store, "team/tool", head)
    stored = CommitTree(folder_of(commit, store), commit.url, head)

    assert checkout.commit == head and checkout.date == stored.date
    assert abs((datetime.now(timezone.utc) - checkout.date).total_seconds()) < 600
    assert {path: stored.contents.sizes[path] for path in FILES} == {path: len(FILES[path]) for path in FILES}
    texts = {path: text.encode() for path, text in FILES.items()}
    assert dict(stored.read(sorted(FILES))) == dict(checkout.read(sorted(FILES))) == texts
    assert stored.contents.submodules == {"lib/dep": repositories.git("team/dep", "rev-parse", "HEAD")}


def test_the_address_of_a_clone_is_its_origin(repositories):
    repositories.make("team/tool", FILES)
    for written, read in (
        ("git@forge.test:team/tool.git", "https://forge.test/team/tool"),
        ("https://forge.test/team/tool", "https://forge.test/team/tool"),
        ("https://ci-token:hunter2@forge.test/team/tool.git", "https://forge.test/team/tool"),
        ("/srv/tool", ""),
        ("https://dev.azure.test/org/My%20Project/_git/repo", ""),
    ):
        repositories.git("team/tool", "config", "remote.origin.url", written)
        assert FolderTree(repositories.root / "team/tool.git").address == read


@pytest.mark.slow
def test_names_that_are_not_utf_8_are_passed_over_and_the_rest_is_read(tmp_path: Path):
    for number in range(4):
        (tmp_path / os.fsdecode(b"caf\xe9%d.py" % number)).write_text("import numpy\n")
    (tmp_path / "a.py").write_text("import scipy\n")
    tree = FolderTree(tmp_path)
    assert list(tree.contents.sizes) == ["a.py"]
    found = [(statement.subject, statement.value) for statement in collect(tree)]
    assert found.count(("unread", "a name that is not UTF-8, which is not read")) == 4 and ("import", "scipy") in found


def test_a_folder_without_git_has_no_commit(tmp_path: Path):
    (tmp_path / "a.py").write_text("")
    tree = FolderTree(tmp_path)
    assert (tree.address, tree.commit, tree.date) == ("", "", None) and list(tree.contents.sizes) == ["a.py"]


@pytest.mark.slow
def test_a_pipe_in_place_of_the_commit_is_not_waited_for(repositories, monkeypatch):
    head = repositories.make("team/tool", FILES)
    root = repositories.root / "team/tool.git"
    assert FolderTree(root).date  # the control
    (commit := root / ".git/objects" / head[:2] / head[2:]).unlink()
    os.mkfifo(commit)
    monkeypatch.setattr("reprokit.importing.tree._GIT_TIMEOUT_S", 0.5)
    assert (FolderTree(root).commit, FolderTree(root).date) == (head, None)
