from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.config import Configuration, MirrorEntry
from reprokit.errors import EngineError, SourceError
from reprokit.supply.kinds.git import fetch as fetch_git_module
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.fetch import ensure, fetch_git
from reprokit.supply.kinds.git.store import Commit, folder_of
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.disk import Disk
from tests.support.git_server import GitServer
from tests.support.repositories import Repositories

TOOL = "https://forge.test/team/tool"


@pytest.fixture
def places(store: Store) -> Mirrors:
    return Mirrors(store, Configuration())


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_git_module._Running, "wait", lambda self, seconds: None)


@pytest.fixture
def next_server(repositories: Repositories, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], GitServer]]:
    """Starts a server of what the repositories hold over HTTP; git asks the latest instead of their folders."""
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


def allow_filters(repositories: Repositories, name: str) -> None:
    """As the public forges do."""
    repositories.git(name, "config", "uploadpack.allowFilter", "true")


def big_files(count: int) -> dict[str, str]:
    """Files that no delta makes smaller."""
    return {f"file{n}": random.Random(n).randbytes(4000).hex() for n in range(count)}


def show(commit: Commit, path: str, store: Store) -> str:
    return git("show", f"{commit.commit}:{path}", folder=folder_of(commit, store))


def mirror(*templates: str) -> Configuration:
    return Configuration(tuple(MirrorEntry("git", template, "test") for template in templates))


def test_one_commit_without_its_history(repositories: Repositories, store: Store, places: Mirrors):
    repositories.make("team/tool", {"a": "1"})
    top = Commit(TOOL, repositories.commit("team/tool", {"a": "2"}))
    ensure([top], store, places)
    assert git("rev-list", "--count", top.commit, folder=folder_of(top, store)).strip() == "1"
    assert not (folder_of(top, store) / "hooks").exists()
    assert not list((store.root / "partial").iterdir())


def test_a_commit_that_is_no_branch_head(repositories: Repositories, store: Store, places: Mirrors):
    old = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    repositories.commit("team/tool", {"a": "2"})
    ensure([old], store, places)
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
    ensure([old], store, places, said.append)
    assert any("whole history" in line for line in said)
    assert show(old, "a", store) == "1"


def test_several_commits_of_one_repository(repositories: Repositories, store: Store, places: Mirrors):
    commits = [Commit(TOOL, repositories.make("team/tool", {"a": "0"}))]
    commits += [Commit(TOOL, repositories.commit("team/tool", {"a": str(n)})) for n in range(1, 8)]
    ensure(commits, store, places)
    assert [show(commit, "a", store) for commit in commits] == [str(n) for n in range(8)]


def test_what_is_there_starts_no_git(repositories: Repositories, store: Store, places: Mirrors, monkeypatch):
    top = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    ensure([top], store, places)
    monkeypatch.setenv("PATH", "")
    ensure([top], store, places)


@pytest.mark.usefixtures("no_waiting")
def test_a_line_that_cuts_every_big_answer_still_brings_the_commit(
    repositories: Repositories, server: GitServer, store: Store, places: Mirrors
):
    top = Commit(TOOL, repositories.make("team/tool", big_files(600)))
    allow_filters(repositories, "team/tool")
    # 600 files of 4 kB are one pack of 2.4 MB, which never arrives; 256 of them do.
    server.cuts, server.cut_after = 10**6, 1_500_000
    said: list[str] = []
    ensure([top], store, places, said.append)
    assert show(top, "file599", store) == big_files(600)["file599"]
    assert any("in pieces, 256 of 600 files done" in line for line in said)
    assert max(server.packs) < 1_500_000
    assert not list((store.root / "partial").iterdir())
    # What was put together from pieces is a repository like any other.
    assert "promisor" not in (folder_of(top, store) / "config").read_text()
    git("fsck", "--full", folder=folder_of(top, store))


@pytest.mark.usefixtures("no_waiting")
def test_the_password_of_a_mirror_stays_out_of_the_store(
    repositories: Repositories, server: GitServer, store: Store, monkeypatch: pytest.MonkeyPatch
):
    top = Commit("https://elsewhere.test/team/tool", repositories.make("team/tool", big_files(2)))
    allow_filters(repositories, "team/tool")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "url.http://127.0.0.1:9/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://elsewhere.test/")
    server.cuts, server.cut_after = 10**6, 1_000
    said: list[str] = []
    places = Mirrors(store, mirror(server.url.replace("//", "//me:secret@") + "/{path}.git"))
    with pytest.raises(SourceError) as error:
        ensure([top], store, places, said.append)
    # What its folders hold came, the files did not.
    assert any("in pieces, 0 of 2 files" in line for line in said)
    left = [path for path in store.root.rglob("*") if path.is_file()]
    assert [path for path in left if path.suffix == ".pack"]
    assert not [path for path in left if b"secret" in path.read_bytes()]
    assert "secret" not in f"{said} {error.value.message} {error.value.where}"


def at_work(store: Store) -> bool:
    """Whether a process works on the store."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(store.root).encode() in command.read_bytes():
                return True
    return False


def test_a_killed_fetch_goes_on_from_what_it_had(
    repositories: Repositories,
    server: GitServer,
    next_server: Callable[[], GitServer],
    store: Store,
    places: Mirrors,
):
    top = Commit(TOOL, repositories.make("team/tool", big_files(600)))
    allow_filters(repositories, "team/tool")
    server.cuts, server.cut_after = 10**6, 1_000  # from here on nothing arrives
    script = (
        "import sys; from pathlib import Path; from reprokit.supply.kinds.git.fetch import ensure;"
        "from reprokit.supply.kinds.git.store import Commit; from reprokit.supply.store import Store;"
        "from reprokit.supply.mirrors.places import Mirrors;"
        "from reprokit.config import Configuration;"
        "store = Store(Path(sys.argv[1]));"
        "ensure([Commit(*sys.argv[2:])], store, Mirrors(store, Configuration()), lambda line: print(line, flush=True))"
    )
    command = [sys.executable, "-c", script, str(store.root), top.url, top.commit]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "trying again" in line:
                server.cuts = 0
            if "256 of 600" in line:
                break
        os.killpg(process.pid, signal.SIGKILL)
    # git outlives its parent for a moment.
    deadline = time.monotonic() + 30
    while at_work(store):
        assert time.monotonic() < deadline, "git goes on without its parent"
        time.sleep(0.05)
    assert not folder_of(top, store).exists()
    # The first server may still answer what the dead asked for.
    second = next_server()
    ensure([top], store, places)
    assert show(top, "file599", store) == big_files(600)["file599"]
    assert sum(second.packs) < 600 * 4000  # not all of it again


@pytest.mark.usefixtures("no_waiting")
def test_spoilt_pieces_are_thrown_away(repositories: Repositories, server: GitServer, store: Store, places: Mirrors):
    top = Commit(TOOL, repositories.make("team/tool", big_files(2)))
    allow_filters(repositories, "team/tool")
    server.cuts, server.cut_after = 10**6, 1_000
    with pytest.raises(SourceError):
        ensure([top], store, places)
    server.cuts = 0
    (pack,) = (store.root / "partial").rglob("*.pack")
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:-30] + b"x" * 30)
    ensure([top], store, places)
    assert show(top, "file1", store) == big_files(2)["file1"]


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
    ensure([top], store, places, said.append)
    assert [line for line in said if "trying again" in line] == [
        "forge.test/team/tool: early EOF; trying again in 1 s",
        "forge.test/team/tool: gnutls_handshake() failed; trying again in 2 s",
    ]


def test_one_failure_ends_the_others(repositories: Repositories, store: Store, places: Mirrors, monkeypatch):
    top = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    other = Commit("https://forge.test/team/gone", "1" * 40)
    fetch, begun = fetch_git_module.git_with_progress, time.monotonic()

    def slow(folder: Path, arguments: list[str], say: object, started, environ=None) -> None:
        if TOOL in arguments:
            process = subprocess.Popen(["sleep", "600"])
            started(process)
            raise GitFailed(f"ended by {process.wait()}")
        fetch(folder, arguments, say, started)

    monkeypatch.setattr(fetch_git_module, "git_with_progress", slow)
    with pytest.raises(SourceError, match="111111111111"):
        ensure([top, other], store, places)
    assert time.monotonic() - begun < 300


def test_a_full_disk_is_no_failure_of_the_server(repositories: Repositories, disk: Disk):
    top = Commit(TOOL, repositories.make("team/tool", big_files(100)))
    store = Store(disk.folder / "store")
    disk.limit("size=400k")
    said: list[str] = []
    with pytest.raises(EngineError, match="the disk is full") as error:
        ensure([top], store, Mirrors(store, Configuration()), said.append)
    assert error.value.where == str(store.root)
    assert not [line for line in said if "trying again" in line]
    assert not list((store.root / "tmp").iterdir()) and not list((store.root / "partial").iterdir())
    disk.limit("size=0")
    ensure([top], store, Mirrors(store, Configuration()))
    assert show(top, "file99", store)


def test_a_repository_that_is_not_there(repositories: Repositories, store: Store, places: Mirrors):
    with pytest.raises(SourceError) as error:
        ensure([Commit("https://forge.test/team/gone", "1" * 40)], store, places)
    assert error.value.where == "https://forge.test/team/gone"
    assert "111111111111" in error.value.message
    assert not list((store.root / "partial").iterdir())


def test_a_commit_that_nobody_has(repositories: Repositories, store: Store, places: Mirrors):
    repositories.make("team/tool", {"a": "1"})
    with pytest.raises(SourceError, match="no branch or tag of the repository holds"):
        ensure([Commit(TOOL, "1" * 40)], store, places)


def test_mirrors_come_first(repositories: Repositories, store: Store):
    top = Commit("https://elsewhere.test/team/tool", repositories.make("team/tool", {"a": "1"}))
    places = Mirrors(store, mirror(f"file://{repositories.root}/{{owner}}/{{repo}}.git"))
    ensure([top], store, places)
    assert show(top, "a", store) == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_mirror_in_a_folder_may_be_another_users(repositories: Repositories, store: Store):
    top = Commit("https://elsewhere.test/team/tool", repositories.make("team/tool", {"a": "1"}))
    for path in (repositories.root, *repositories.root.rglob("*")):
        os.chown(path, 12345, 12345)
    ensure([top], store, Mirrors(store, mirror(f"file://{repositories.root}/{{path}}.git")))
    assert show(top, "a", store) == "1"


def test_a_mirror_without_the_repository_is_passed_over(repositories: Repositories, store: Store, tmp_path: Path):
    top = Commit(TOOL, repositories.make("team/tool", {"a": "1"}))
    said: list[str] = []
    ensure([top], store, Mirrors(store, mirror(f"file://{tmp_path}/none/{{path}}.git")), said.append)
    assert show(top, "a", store) == "1"
    assert any("none/team/tool.git" in line and "does not" in line for line in said)


def test_locked_commits_are_checked_by_their_tree(repositories: Repositories, store: Store, places: Mirrors):
    head = repositories.make("team/tool", {"a": "1"})
    tree = repositories.git("team/tool", "rev-parse", "HEAD^{tree}")
    wrong = GitCommit(url=TOOL, commit=head, tree="1" * 40)
    with pytest.raises(SourceError, match=f"has the tree {tree}, expected {'1' * 40}"):
        fetch_git([wrong], store, places)


def test_offline_names_what_is_missing(repositories: Repositories, store: Store, places: Mirrors):
    head = repositories.make("team/tool", {"a": "1"})
    locked = GitCommit(url=TOOL, commit=head, tree=repositories.git("team/tool", "rev-parse", "HEAD^{tree}"))
    with pytest.raises(SourceError, match="1 git commits are not in the store") as error:
        fetch_git([locked], store, places, offline=True)
    assert error.value.where == TOOL
    assert fetch_git([locked], store, places) == 1
    assert fetch_git([locked], store, places, offline=True) == 0


def test_a_transport_that_runs_commands_is_refused_after_insteadof(
    store: Store, places: Mirrors, monkeypatch, tmp_path
):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.ext::touch {tmp_path}/ran ;.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://forge.test/")
    with pytest.raises(SourceError, match="transport 'ext' not allowed"):
        ensure([Commit(TOOL, "1" * 40)], store, places)
    assert not (tmp_path / "ran").exists()
