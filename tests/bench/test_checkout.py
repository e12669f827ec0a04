"""The commit of a workspace, without running what its repository configures."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from reprokit.bench.checkout import checkout_of
from reprokit.results.record import Checkout

UNREAD = Checkout(warnings=("the commit of the workspace is unknown: its git repository could not be read",))


def state(folder: Path) -> tuple[str, bool | None]:
    checkout = checkout_of(folder)
    return checkout.commit, checkout.dirty


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    root = tmp_path / "checkout"
    (root / "workspaces" / "x").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / "workspaces" / "x" / "a.py").write_text("1\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    return root


def test_the_commit_and_whether_files_differ(repository):
    folder, head = repository / "workspaces" / "x", git(repository, "rev-parse", "HEAD")
    assert checkout_of(folder) == Checkout(commit=head, dirty=False)
    (folder / "new.py").write_text("untracked files are results, too\n")
    assert checkout_of(folder) == Checkout(commit=head, dirty=False)
    (folder / "a.py").write_text("2\n")
    changed = checkout_of(folder)
    assert (changed.commit, changed.dirty) == (head, True)
    git(repository, "add", "--update")
    assert checkout_of(folder) == changed == Checkout(commit=head, dirty=True, changes=git(repository, "write-tree"))
    (folder / "a.py").write_text("3\n")
    assert checkout_of(folder).changes not in ("", changed.changes)


@pytest.mark.slow
def test_a_change_in_the_second_of_the_commit_is_seen(repository):
    file = repository / "workspaces" / "x" / "a.py"
    file.write_text("4\n")
    git(repository, "commit", "-qam", "two")
    file.write_text("5\n")  # of the same size
    time.sleep(1.1)
    assert checkout_of(repository).dirty is True


@pytest.mark.parametrize("branch", ["main", "fix/#42", "a,b", "größe", "x=(1)!", "a'b"])
def test_packed_references_worktrees_and_any_name_of_a_branch(repository, tmp_path, branch):
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "branch", "-m", branch)
    assert checkout_of(repository) == Checkout(commit=head, dirty=False)
    git(repository, "pack-refs", "--all")
    assert checkout_of(repository) == Checkout(commit=head, dirty=False)
    if branch == "main":
        git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
        assert checkout_of(tmp_path / "tree" / "workspaces" / "x") == Checkout(commit=head, dirty=False)


def test_no_commit_outside_a_repository_on_an_empty_branch_and_in_an_ignored_folder(tmp_path, repository):
    assert checkout_of(tmp_path) == Checkout()
    (repository / ".gitignore").write_text("/ignored\n")
    (repository / "ignored").mkdir()
    (repository / "ignored" / "a.py").write_text("1\n")
    assert checkout_of(repository / "ignored") == Checkout()
    git(repository, "checkout", "-q", "--orphan", "empty")
    assert checkout_of(repository) == Checkout()


def test_a_submodule_leaves_it_unknown_whether_files_differ(repository, tmp_path):
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repository), "sub")
    git(repository, "commit", "-qam", "two")
    head = git(repository, "rev-parse", "HEAD")
    (repository / "sub" / "workspaces" / "x" / "a.py").write_text("2\n")
    assert checkout_of(repository) == Checkout(commit=head)
    (repository / "workspaces" / "x" / "a.py").write_text("2\n")
    assert checkout_of(repository) == Checkout(commit=head, dirty=True)
    # The submodule itself, whose repository is in that of the checkout.
    assert state(repository / "sub") == (git(repository / "sub", "rev-parse", "HEAD"), True)


def test_a_workspace_leads_to_no_repository_elsewhere(repository, tmp_path):
    head, elsewhere, own = git(repository, "rev-parse", "HEAD"), repository / ".git", tmp_path / "workspace"
    git(tmp_path, "clone", "-q", str(repository), "workspace")
    assert state(own) == (head, False)  # the control
    (own / ".git").rename(tmp_path / "kept")
    (own / ".git").write_text(f"gitdir: {elsewhere}\n")
    assert checkout_of(own) == UNREAD
    (own / ".git").unlink()
    (own / ".git").symlink_to(elsewhere)
    assert checkout_of(own) == UNREAD
    (own / ".git").unlink()
    (tmp_path / "kept").rename(own / ".git")
    (own / ".git" / "commondir").write_text(f"{elsewhere}\n")
    assert checkout_of(own) == UNREAD


def test_a_broken_repository_is_not_read(repository):
    names = ("../../../etc/passwd", "refs/../../etc/passwd", "refs/heads/.invalid", "refs/heads/a b")
    for head in (*(f"ref: {name}\n".encode() for name in names), b"\xff" * 100):
        (repository / ".git" / "HEAD").write_bytes(head)
        assert checkout_of(repository) == UNREAD, head


def test_what_the_repository_configures_is_not_run(repository, tmp_path):
    ran, program = tmp_path / "ran", tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {ran}\nexec cat\n")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=evil\n")
    (repository / "workspaces" / "x" / "a.py").write_text("3\n")
    for key in ("core.hooksPath", "filter.evil.clean", "core.fsmonitor"):
        git(repository, "config", key, str(program))
        assert checkout_of(repository).dirty is True and not ran.exists()
        if key != "core.hooksPath":  # the control: plain git runs it
            git(repository, "status")
            ran.unlink()
        git(repository, "config", "--unset", key)


@pytest.mark.parametrize("place", ["an object", ".gitattributes"])
@pytest.mark.slow
def test_pipes_are_not_waited_for(repository, monkeypatch, place):
    head, file = git(repository, "rev-parse", "HEAD"), repository / ".gitattributes"
    (repository / "workspaces" / "x" / "a.py").write_text("6\n")
    assert state(repository) == (head, True)  # the control
    if place == "an object":
        file = repository / ".git" / "objects" / head[:2] / head[2:]
        file.unlink()
    os.mkfifo(file)
    monkeypatch.setattr("reprokit.bench.checkout._GIT_TIMEOUT_S", 0.5)
    assert checkout_of(repository) == Checkout(commit=head)
