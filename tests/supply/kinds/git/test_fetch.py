"""Git commits fetched into the store, from repositories, mirrors and flaky servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.config import Configuration
from reprokit.errors import EngineError, SourceError
from reprokit.supply.fetch.download import Stop
from reprokit.supply.kinds.git import fetch as fetch_git_module
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.fetch import ensure, fetch_git
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.disk import Disk
from tests.support.git_server import GitServer
from tests.support.processes import naming
from tests.support.repositories import TOOL, Repositories, allow_filters, big_files, mirror, show
from tests.support.waiting import wait_for

GONE = Commit("https://forge.test/team/gone", "1" * 40)


@pytest.fixture
def places(store: Store) -> Mirrors:
    return Mirrors(store, Configuration())


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stop, "wait", lambda self, seconds: None)


@pytest.fixture
def next_server(repositories: Repositories, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], GitServer]]:
    """Start an HTTP server of the repositories; git uses the latest one instead of their folders."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    servers: list[GitServer] = []

    def start() -> GitServer:
        servers.append(GitServer(repositories.root))
        monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{servers[-1].url}/.insteadOf")
        return servers[-1]

    yield start
    for server in servers:
        server.server.shutdown()
        server.server.server_close()


@pytest.fixture
def server(next_server: Callable[[], GitServer]) -> GitServer:
    return next_server()


@pytest.mark.slow
def test_commits_without_their_history(repositories: Repositories, store: Store, places: Mirrors, monkeypatch):
    commits = [Commit(TOOL, repositories.make("team/tool", {"a": "0"}))]
    commits += [Commit(TOOL, repositories.commit("team/tool", {"a": str(n)})) for n in range(1, 6)]
    ensure(commits, places)
    assert [show(commit, "a", store) for commit in commits] == [str(n) for n in range(6)]
    top = commits[-1]
    assert git("rev-list", "--count", top.commit, folder=folder_of(top, store)).strip() == "1"
    assert not (folder_of(top, store) / "hooks").exists()
    assert not list((store.root / "partial").iterdir())
    monkeypatch.setenv("PATH", "")
    ensure(commits, places)  # starts no git


def test_a_server_that_gives_no_single_commits(
    repositories: Repositories, store: Store, places: Mirrors, monkeypatch: pytest.MonkeyPatch, reported: list[str]
):
    old = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    repositories.commit("team/tool", {"a": "2"})
    # The oldest protocol gives branch tips only, unless the server allows more.
    monkeypatch.setenv("GIT_CONFIG_COUNT", "4")
    monkeypatch.setenv("GIT_CONFIG_KEY_3", "protocol.version")
    monkeypatch.setenv("GIT_CONFIG_VALUE_3", "0")
    ensure([old], places)
    assert any("whole history" in line for line in reported)
    assert show(old, "a", store) == "1"
    with pytest.raises(SourceError, match="no branch or tag of the repository holds"):
        ensure([Commit(TOOL, "1" * 40)], places)


@pytest.mark.usefixtures("no_waiting")
def test_flaky_networks_are_tried_again(repositories: Repositories, places: Mirrors, monkeypatch, reported: list[str]):
    top = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    fetch, failures = fetch_git_module.git_with_progress, ["gnutls_handshake() failed", "early EOF"]

    def flaky(*arguments: object) -> None:
        if failures:
            raise GitFailed(failures.pop())
        fetch(*arguments)

    monkeypatch.setattr(fetch_git_module, "git_with_progress", flaky)
    ensure([top], places)
    assert [line for line in reported if "trying again" in line] == [
        "forge.test/team/tool: early EOF; trying again in 1 s",
        "forge.test/team/tool: gnutls_handshake() failed; trying again in 2 s",
    ]


def test_one_failure_ends_the_others(repositories: Repositories, store: Store, places: Mirrors, monkeypatch):
    top = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    fetch = fetch_git_module.git_with_progress

    def slow(folder: Path, arguments: list[str], on_step: object, stop: Stop, environ=None) -> None:
        if TOOL in arguments:
            process = subprocess.Popen(["sleep", "9999"])
            with stop.ends(process.terminate):
                raise GitFailed(f"ended by {process.wait()}")
        fetch(folder, arguments, on_step, stop)

    monkeypatch.setattr(fetch_git_module, "git_with_progress", slow)
    with pytest.raises(SourceError, match="111111111111") as error:
        ensure([top, GONE], places)
    assert error.value.where == GONE.url
    assert not list((store.root / "partial").iterdir())


@pytest.mark.slow
def test_a_full_disk_is_no_failure_of_the_server(repositories: Repositories, disk: Disk, reported: list[str]):
    top = Commit(TOOL, repositories.make("team/tool", big_files(100)))
    store = Store(disk.folder / "store")
    disk.limit("size=400k")
    with pytest.raises(EngineError, match="the disk is full") as error:
        ensure([top], Mirrors(store, Configuration()))
    assert error.value.where == str(store.root)
    assert not [line for line in reported if "trying again" in line]
    assert not list((store.root / "tmp").iterdir()) and not list((store.root / "partial").iterdir())
    disk.limit("size=0")
    ensure([top], Mirrors(store, Configuration()))
    assert show(top, "file99", store)


def test_mirrors_come_first_and_may_lack_the_repository(
    repositories: Repositories, store: Store, tmp_path: Path, reported: list[str]
):
    top = Commit("https://elsewhere.test/team/tool", repositories.make("team/tool", {"a": "1"}))
    if os.geteuid() == 0:  # the folder of a mirror may be another user's
        for path in (repositories.root, *repositories.root.rglob("*")):
            os.chown(path, 12345, 12345)
    templates = f"file://{tmp_path}/none/{{path}}.git", f"file://{repositories.root}/{{owner}}/{{repo}}.git"
    ensure([top], Mirrors(store, mirror(*templates)))
    assert show(top, "a", store) == "1"
    assert any("none/team/tool.git" in line and "does not" in line for line in reported)


@pytest.mark.usefixtures("no_waiting")
def test_every_place_that_was_asked_is_named(repositories: Repositories, store: Store, tmp_path: Path):
    broken = tmp_path / "broken/team/gone.git/HEAD"
    broken.parent.mkdir(parents=True)
    broken.write_text("no repository")
    places = Mirrors(store, mirror(f"file://{tmp_path}/none/{{path}}.git", f"file://{tmp_path}/broken/{{path}}.git"))
    with pytest.raises(SourceError) as error:
        ensure([GONE], places)
    assert error.value.where == GONE.url
    origin, *others = error.value.message.splitlines()
    assert "git could not fetch 111111111111: " in origin
    assert sorted(line.partition(".git: ")[0].strip() for line in others) == [
        f"file://{tmp_path}/{place}/team/gone" for place in ("broken", "none")
    ]
    assert all(line.partition(".git: ")[2] for line in others)


def test_locked_commits_are_checked_by_their_tree(repositories: Repositories, places: Mirrors):
    commits = repositories.make("team/tool", {"a": "1"}), repositories.commit("team/tool", {"a": "2"})
    trees = [repositories.git("team/tool", "rev-parse", f"{commit}^{{tree}}") for commit in commits]
    first, second = (GitCommit(url=TOOL, commit=c, tree=t) for c, t in zip(commits, trees, strict=True))
    for _ in range(2):
        with pytest.raises(SourceError, match=f"has the tree {trees[0]}, expected {'f' * 40}"):
            fetch_git([first.model_copy(update={"tree": "f" * 40})], places)
    with pytest.raises(SourceError, match="the store lacks 1 git commit, such as") as error:
        fetch_git([first, second], places, offline=True)
    assert error.value.where == TOOL
    assert fetch_git([first, second], places) == 1
    assert fetch_git([first, second], places, offline=True) == 0


def test_a_transport_that_runs_commands_is_refused_after_insteadof(places: Mirrors, monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.ext::touch {tmp_path}/ran ;.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://forge.test/")
    with pytest.raises(SourceError, match="transport 'ext' not allowed"):
        ensure([GONE], places)
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def big(repositories: Repositories) -> Commit:
    """A commit whose pack of 400 files has 1.8 MB, of a forge with partial fetches."""
    commit = Commit(TOOL, repositories.make("team/tool", big_files(400)))
    allow_filters(repositories, "team/tool")
    return commit


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.slow
def test_a_line_that_cuts_every_big_answer_still_brings_the_commit(
    big: Commit, server: GitServer, store: Store, places: Mirrors, reported: list[str]
):
    # The whole pack is always cut. A batch of 256 files is smaller than the cut.
    server.cuts, server.cut_after = 10**6, 1_300_000
    ensure([big], places)
    assert show(big, "file399", store) == big_files(400)["file399"]
    assert any("in pieces, 256 of 400 files done" in line for line in reported)
    assert max(server.packs) < 1_300_000
    assert not list((store.root / "partial").iterdir())
    # The result is an ordinary repository.
    assert "promisor" not in (folder_of(big, store) / "config").read_text()
    git("fsck", "--full", folder=folder_of(big, store))


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.slow
def test_the_password_of_a_mirror_stays_out_of_the_store_and_spoilt_pieces_are_thrown_away(
    repositories: Repositories, server: GitServer, store: Store, monkeypatch: pytest.MonkeyPatch, reported: list[str]
):
    top = Commit("https://elsewhere.test/team/tool", repositories.make("team/tool", big_files(2)))
    allow_filters(repositories, "team/tool")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "url.http://127.0.0.1:9/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://elsewhere.test/")
    server.cuts, server.cut_after = 10**6, 1_000
    places = Mirrors(store, mirror(server.url.replace("//", "//me:secret@") + "/{path}.git"))
    with pytest.raises(SourceError) as error:
        ensure([top], places)
    # Its folders arrived, its files did not.
    assert any("in pieces, 0 of 2 files" in line for line in reported)
    left = [path for path in store.root.rglob("*") if path.is_file()]
    assert not [path for path in left if b"secret" in path.read_bytes()]
    assert "secret" not in f"{reported} {error.value.message} {error.value.where}"
    server.cuts = 0
    (pack,) = (path for path in left if path.suffix == ".pack")
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:-30] + b"x" * 30)
    ensure([top], places)
    assert show(top, "file1", store) == big_files(2)["file1"]


@pytest.mark.long
def test_a_killed_fetch_goes_on_from_what_it_had(
    big: Commit, server: GitServer, next_server: Callable[[], GitServer], store: Store, places: Mirrors
):
    server.cuts, server.cut_after = 10**6, 1_000  # from here on nothing arrives
    script = """
import sys
from pathlib import Path
from reprokit.config import Configuration
from reprokit.supply.kinds.git.fetch import ensure
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
places = Mirrors(Store(Path(sys.argv[1])), Configuration())
ensure([Commit(*sys.argv[2:])], places)
"""
    command = [sys.executable, "-c", script, str(store.root), big.url, big.commit]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "trying again" in line:
                server.cuts = 0
            if "256 of 400" in line:
                break
        os.killpg(process.pid, signal.SIGKILL)
    # git runs for a moment after its parent has ended.
    wait_for(lambda: not naming(store.root))
    assert not folder_of(big, store).exists()
    # The first server may still be answering the killed process.
    second = next_server()
    ensure([big], places)
    assert show(big, "file399", store) == big_files(400)["file399"]
    assert sum(second.packs) < 400 * 4000 // 2  # not all of it again
