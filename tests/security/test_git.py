"""git: a checkout's settings are not used, output is bounded, addresses stand for nothing else, keys stay private."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.config import Configuration
from reprokit.errors import SourceError, UsageError
from reprokit.image.render import render
from reprokit.importing.tree import opened
from reprokit.recipe.fields import git_requirement
from reprokit.recipe.model import Source
from reprokit.supply import upkeep
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.resolve import changed_commits, commit_of, lock_git
from reprokit.supply.kinds.git.store import folder_of, has_commit, submodule_url, submodules_of
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.forge import Forge
from tests.support.rendering import COMMIT, source, target
from tests.support.repositories import Repositories
from tests.support.ssh_server import SshServer, ssh_server
from tests.support.stores import fetch

ADDRESS = "https://host.invalid/tool"


@pytest.mark.parametrize("stream", ["1", "2"])
def test_what_git_prints_is_limited(tmp_path, monkeypatch, stream: str):
    (tmp_path / "git").write_text(f"#!/bin/sh\nexec yes >&{stream}\n")
    (tmp_path / "git").chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(GitFailed, match="more than 64 MiB"):
            git("ls-remote", "--", "https://example.org/x")
    assert git("--version").startswith("git version")


@pytest.mark.slow
def test_submodules_without_an_end(repositories: Repositories, store: Store):
    def submodules(name: str, count: int) -> dict:
        listed = "".join(f'[submodule "m{n}"]\npath = m{n}\nurl = https://example.org/m{n}\n' for n in range(count))
        return submodules_of(fetch(store, name, repositories.make(name, {".gitmodules": listed})), store)

    assert submodules("team/few", 3) == {}
    with pytest.raises(UsageError, match="more than 1000 submodules") as error:
        submodules("team/many", 1001)
    assert error.value.hint.endswith("REPROKIT_LIMIT_SUBMODULES=2000")


# --- Settings of a stranger's repository, in which git is started


def new_from(mirrors: Mirrors) -> None:
    opened(ADDRESS, "", mirrors)


def lock(mirrors: Mirrors) -> None:
    project = git_requirement(f"tool @ git+{ADDRESS}@v1")
    assert project
    commit_of(project, {}, mirrors)


def outdated(mirrors: Mirrors) -> None:
    named = Source(**{**source("tool", "/t"), "git": ADDRESS, "commit": "1" * 40, "ref": "v1"})
    assert [moved.what for moved in changed_commits([named], [], mirrors)] == ["unknown"]
    raise SourceError("as it should")


@pytest.fixture
def checkout(tmp_path: Path, bare: bool, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a repository, bare or not, whose settings run a program that leaves `../mark`."""
    root = tmp_path / "checkout"
    subprocess.run(["git", "init", "-q", *(["--bare"] if bare else []), str(root)], check=True)
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/mark\n")
    evil.chmod(0o755)
    with (root / ("config" if bare else ".git/config")).open("a") as config:
        config.write(f"[core]\n\tsshCommand = {evil}\n[credential]\n\thelper = {evil}\n[http]\n\tsslVerify = false\n")
        config.write('[url "ssh://host.invalid/"]\n\tinsteadOf = https://host.invalid/\n')
    monkeypatch.chdir(root)
    return root


@pytest.mark.slow
@pytest.mark.parametrize(("command", "bare"), [(new_from, False), (lock, False), (outdated, False), (lock, True)])
def test_the_current_folder_configures_no_git(checkout: Path, store: Store, command: Callable[[Mirrors], None]):
    with pytest.raises(SourceError):
        command(Mirrors(store, Configuration()))
    assert not (checkout.parent / "mark").exists()
    subprocess.run(["git", "ls-remote", "--", ADDRESS], check=False, capture_output=True)  # the control
    assert (checkout.parent / "mark").exists()


@pytest.mark.parametrize("bare", [True, False])
def test_only_the_users_own_settings_are_used(checkout: Path, monkeypatch):
    own = checkout.parent / "own"
    own.write_text('[url "https://mirror.invalid/"]\n\tinsteadOf = https://host.invalid/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(own))
    assert git("ls-remote", "--get-url", ADDRESS).strip() == "https://mirror.invalid/tool"
    assert "sslverify" not in git("config", "--list")
    (checkout / "store").mkdir()
    with pytest.raises(GitFailed, match="inside a git repository"):  # git would take the repository around it
        git("config", "--list", "--local", folder=checkout / "store")


# --- Addresses of repositories that would lie inside one another's place in the store


@pytest.mark.parametrize("below", ["x", "objects", "refs/heads", ".git/x"])
def test_an_address_below_another_does_not_stand_for_it(store: Store, repositories: Repositories, below: str):
    good = repositories.make("team/tool", {"a": "good"})
    inside = f"team/tool/{good}.git/{below}"
    fetch(store, inside, repositories.make(inside, {"a": "evil"}))
    victim = Commit("https://forge.test/team/tool", good)
    assert not folder_of(victim, store).exists()  # nothing looks fetched that is not
    fetch(store, "team/tool", good)
    assert has_commit(folder_of(victim, store), good)
    assert {each.key.url for each in upkeep.stored_repositories(store)} == {victim.url, f"https://forge.test/{inside}"}


def test_places_are_distinct_and_none_is_inside_another(store: Store):
    commit = "0" * 40
    paths = ["a/b", "a/b/", "a/b.git/c", f"a/b/{commit}.git/c", "a%2Fb", "a//b", "A/b", "a/b~", ":1/a", "a/b/c"]
    folders = [folder_of(Commit(f"https://h.test/{path}", commit), store) for path in paths]
    assert len(set(folders)) == len(paths)
    assert {folder.parent.parent for folder in folders} == {store.root / "repositories"}


# --- Private repositories: the user's keys are used for hosts of the user's own configuration, and nowhere else


@pytest.fixture
def server(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    (short_path / "ssh").mkdir()
    with ssh_server(short_path / "ssh") as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.mark.slow
def test_a_key_of_the_agent_opens_repositories_of_the_users_own_hosts_only(server: SshServer, store: Store):
    def locked(source: Source, *hosts: str) -> list:
        return lock_git(source, Mirrors(store, Configuration(hosts=hosts), (), PipSettings(), AptSettings()))

    forge = Forge(server.root / "forge")
    forge.commit("team/part", "part.txt")
    commit = forge.commit("team/secret", "data.txt", submodule="team/part")
    private = Source(name="s", git=f"{server.address}/team/secret.git", commit=commit, path="/s", submodules=True)
    for stranger in ((), ("other.test",), ("127.0.0.1:1",)):
        with pytest.raises(SourceError, match=r"ssh to 127\.0\.0\.1 would use your keys"):
            locked(private, *stranger)
    assert server.connections == 0
    top = locked(private.model_copy(update={"submodules": False}), "127.0.0.1")
    assert [c.commit for c in top] == [commit] and server.connections
    assert server.private_key not in top[0].model_dump_json()


def test_an_address_of_ssh_cannot_be_an_option_or_a_command():
    for address in ("ssh://-oProxyCommand=id/x", "ssh://a@-oProxyCommand=id/x", "a@-oX:x", "ssh://a@h/x;id",
                    "ssh://a:secret@h/x", "ssh://h/x", "ext::sh -c id", "a@h:-x y"):  # fmt: skip
        with pytest.raises(ValueError, match="not an https:// address"):
            Source(name="s", git=address, commit=COMMIT, path="/s")
    assert Source(name="s", git="git@host.test:a/b.git", commit=COMMIT, path="/s").git == "ssh://git@host.test/a/b"
    with pytest.raises(UsageError):
        submodule_url("https://forge.test/a/b", "x", "ssh://-oProxyCommand=id/x")


def test_a_strangers_repository_names_no_private_one_as_its_submodule():
    strangers = ("https://forge.test/a/b", "https://host.test/a/b", "ssh://git@forge.test/a/b", "ssh://x@host.test/a")
    for parent in strangers:
        for address in ("git@host.test:team/secret", "ssh://git@host.test/team/secret"):
            with pytest.raises(UsageError, match="not an https:// address"):
                submodule_url(parent, "x", address)
    for address in ("git@host.test:team/part.git", "ssh://git@host.test/team/part", "../part"):
        assert submodule_url("ssh://git@host.test/team/a", "x", address) == "ssh://git@host.test/team/part"


def test_the_image_fetches_a_private_source_from_the_gateway(tmp_path):
    private = {**source("a", "/a"), "git": "git@host.test:team/a.git"}
    text = render(target(tmp_path, sources=[private, source("b", "/b")], blocks=["git"])).dockerfile
    assert "git remote add origin https://host.test/team/a;" in text and "ssh://git@host.test/team" not in text
    for start in ("git@host.test:", "ssh://git@host.test/"):
        assert f'url."$REPROKIT_GIT"host.test/.insteadOf {start}' in text
