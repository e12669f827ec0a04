"""Git commits fetched into the store, from repositories, mirrors and flaky servers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from reprokit.config import Configuration
from reprokit.errors import EngineError, SourceError
from reprokit.supply.fetch.stop import Stop
from reprokit.supply.kinds.git import fetch as fetch_git_module
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.fetch import ensure, fetch_git
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.disk import Disk
from tests.support.repositories import TOOL, Repositories, big_files, mirror, show


def test_one_commit_without_its_history(repositories: Repositories, store: Store, places: Mirrors):
    repositories.make("team/tool", {"a": "1"})
    top = Commit(TOOL, repositories.commit("team/tool", {"a": "2"}))
    ensure([top], places)
    assert git("rev-list", "--count", top.commit, folder=folder_of(top, store)).strip() == "1"
    assert not (folder_of(top, store) / "hooks").exists()
    assert not list((store.root / "partial").iterdir())


def test_a_commit_that_is_no_branch_head(repositories: Repositories, store: Store, places: Mirrors):
    old = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    repositories.commit("team/tool", {"a": "2"})
    ensure([old], places)
    assert show(old, "a", store) == "1"


def test_a_server_that_gives_no_single_commits(
    repositories: Repositories, store: Store, places: Mirrors, monkeypatch: pytest.MonkeyPatch
):
    old = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    repositories.commit("team/tool", {"a": "2"})
    # The oldest protocol gives branch tips only, unless the server allows more.
    monkeypatch.setenv("GIT_CONFIG_COUNT", "4")
    monkeypatch.setenv("GIT_CONFIG_KEY_3", "protocol.version")
    monkeypatch.setenv("GIT_CONFIG_VALUE_3", "0")
    said: list[str] = []
    ensure([old], places, said.append)
    assert any("whole history" in line for line in said)
    assert show(old, "a", store) == "1"


@pytest.mark.slow
def test_several_commits_of_one_repository(repositories: Repositories, store: Store, places: Mirrors):
    commits = [Commit(TOOL, repositories.make("team/tool", {"a": "0"}))]
    commits += [Commit(TOOL, repositories.commit("team/tool", {"a": str(n)})) for n in range(1, 8)]
    ensure(commits, places)
    assert [show(commit, "a", store) for commit in commits] == [str(n) for n in range(8)]


def test_what_is_there_starts_no_git(repositories: Repositories, store: Store, places: Mirrors, monkeypatch):
    top = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    ensure([top], places)
    monkeypatch.setenv("PATH", "")
    ensure([top], places)


@pytest.mark.usefixtures("no_waiting")
def test_flaky_networks_are_tried_again(repositories: Repositories, store: Store, places: Mirrors, monkeypatch):
    top = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    fetch, failures = fetch_git_module.git_with_progress, ["gnutls_handshake() failed", "early EOF"]

    def flaky(*arguments: object) -> None:
        if failures:
            raise GitFailed(failures.pop())
        fetch(*arguments)

    monkeypatch.setattr(fetch_git_module, "git_with_progress", flaky)
    said: list[str] = []
    ensure([top], places, said.append)
    assert [line for line in said if "trying again" in line] == [
        "forge.test/team/tool: early EOF; trying again in 1 s",
        "forge.test/team/tool: gnutls_handshake() failed; trying again in 2 s",
    ]


def test_one_failure_ends_the_others(repositories: Repositories, store: Store, places: Mirrors, monkeypatch):
    top = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    other = Commit("https://forge.test/team/gone", "1" * 40)
    fetch = fetch_git_module.git_with_progress

    def slow(folder: Path, arguments: list[str], notify: object, stop: Stop, environ=None) -> None:
        if TOOL in arguments:
            process = subprocess.Popen(["sleep", "9999"])
            with stop.ends(process.terminate):
                raise GitFailed(f"ended by {process.wait()}")
        fetch(folder, arguments, notify, stop)

    monkeypatch.setattr(fetch_git_module, "git_with_progress", slow)
    with pytest.raises(SourceError, match="111111111111"):
        ensure([top, other], places)


@pytest.mark.slow
def test_a_full_disk_is_no_failure_of_the_server(repositories: Repositories, disk: Disk):
    top = Commit(TOOL, repositories.make("team/tool", big_files(100)))
    store = Store(disk.folder / "store")
    disk.limit("size=400k")
    said: list[str] = []
    with pytest.raises(EngineError, match="the disk is full") as error:
        ensure([top], Mirrors(store, Configuration()), said.append)
    assert error.value.where == str(store.root)
    assert not [line for line in said if "trying again" in line]
    assert not list((store.root / "tmp").iterdir()) and not list((store.root / "partial").iterdir())
    disk.limit("size=0")
    ensure([top], Mirrors(store, Configuration()))
    assert show(top, "file99", store)


def test_a_repository_that_is_not_there(repositories: Repositories, store: Store, places: Mirrors):
    with pytest.raises(SourceError) as error:
        ensure([Commit("https://forge.test/team/gone", "1" * 40)], places)
    assert error.value.where == "https://forge.test/team/gone"
    assert "111111111111" in error.value.message
    assert not list((store.root / "partial").iterdir())


def test_a_commit_that_nobody_has(repositories: Repositories, store: Store, places: Mirrors):
    repositories.make("team/tool", {"a": "1"})
    with pytest.raises(SourceError, match="no branch or tag of the repository holds"):
        ensure([Commit(TOOL, "1" * 40)], places)


def test_mirrors_come_first(repositories: Repositories, store: Store):
    top = Commit("https://elsewhere.test/team/tool", repositories.make("team/tool", {"a": "1"}))
    places = Mirrors(store, mirror(f"file://{repositories.root}/{{owner}}/{{repo}}.git"))
    ensure([top], places)
    assert show(top, "a", store) == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_mirror_in_a_folder_may_be_another_users(repositories: Repositories, store: Store):
    top = Commit("https://elsewhere.test/team/tool", repositories.make("team/tool", {"a": "1"}))
    for path in (repositories.root, *repositories.root.rglob("*")):
        os.chown(path, 12345, 12345)
    ensure([top], Mirrors(store, mirror(f"file://{repositories.root}/{{path}}.git")))
    assert show(top, "a", store) == "1"


def test_a_mirror_without_the_repository_is_passed_over(repositories: Repositories, store: Store, tmp_path: Path):
    top = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    said: list[str] = []
    ensure([top], Mirrors(store, mirror(f"file://{tmp_path}/none/{{path}}.git")), said.append)
    assert show(top, "a", store) == "1"
    assert any("none/team/tool.git" in line and "does not" in line for line in said)


@pytest.mark.usefixtures("no_waiting")
def test_every_place_that_was_asked_is_named(repositories: Repositories, store: Store, tmp_path: Path):
    broken = tmp_path / "broken/team/gone.git/HEAD"
    broken.parent.mkdir(parents=True)
    broken.write_text("no repository")
    places = Mirrors(store, mirror(f"file://{tmp_path}/none/{{path}}.git", f"file://{tmp_path}/broken/{{path}}.git"))
    with pytest.raises(SourceError) as error:
        ensure([Commit("https://forge.test/team/gone", "1" * 40)], places)
    assert error.value.where == "https://forge.test/team/gone"
    origin, *others = error.value.message.splitlines()
    assert "git could not fetch 111111111111: " in origin
    assert sorted(line.partition(".git: ")[0].strip() for line in others) == [
        f"file://{tmp_path}/{place}/team/gone" for place in ("broken", "none")
    ]
    assert all(line.partition(".git: ")[2] for line in others)


def test_locked_commits_are_checked_by_their_tree(repositories: Repositories, store: Store, places: Mirrors):
    head = repositories.make("team/tool", {"a": "1"})
    tree = repositories.git("team/tool", "rev-parse", "HEAD^{tree}")
    wrong = GitCommit(url=TOOL, commit=head, tree="1" * 40)
    with pytest.raises(SourceError, match=f"has the tree {tree}, expected {'1' * 40}"):
        fetch_git([wrong], places)


def test_offline_names_what_is_missing(repositories: Repositories, store: Store, places: Mirrors):
    head = repositories.make("team/tool", {"a": "1"})
    locked = GitCommit(url=TOOL, commit=head, tree=repositories.git("team/tool", "rev-parse", "HEAD^{tree}"))
    with pytest.raises(SourceError, match="the store lacks 1 git commit, such as") as error:
        fetch_git([locked], places, offline=True)
    assert error.value.where == TOOL
    assert fetch_git([locked], places) == 1
    assert fetch_git([locked], places, offline=True) == 0


def test_a_transport_that_runs_commands_is_refused_after_insteadof(
    store: Store, places: Mirrors, monkeypatch, tmp_path
):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.ext::touch {tmp_path}/ran ;.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://forge.test/")
    with pytest.raises(SourceError, match="transport 'ext' not allowed"):
        ensure([Commit(TOOL, "1" * 40)], places)
    assert not (tmp_path / "ran").exists()


def test_another_tree_is_refused_each_time(repositories: Repositories, places: Mirrors):
    locked = GitCommit(url=TOOL, commit=repositories.make("team/tool", {"a": "1"}), tree="f" * 40)
    for _ in range(2):
        with pytest.raises(SourceError, match=f"expected {'f' * 40}"):
            fetch_git([locked], places)
