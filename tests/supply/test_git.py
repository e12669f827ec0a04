from __future__ import annotations

import pytest

from reprokit.errors import SourceError, UsageError
from reprokit.supply import git as supply_git
from reprokit.supply.git import Commit, fetch_all, folder_of, submodule_url
from reprokit.supply.gitcommand import GitFailed, first_cause
from reprokit.supply.store import Store

from .conftest import Repositories


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supply_git.time, "sleep", lambda seconds: None)


def test_one_commit_without_its_history(repositories: Repositories, store: Store):
    repositories.make("team/tool", {"a": "1"})
    head = repositories.commit("team/tool", {"a": "2"})
    (top,) = fetch_all("https://forge.test/team/tool", head, False, store)
    folder = folder_of(top, store)
    assert supply_git.git("rev-list", "--count", head, folder=folder).strip() == "1"
    assert not (folder / "hooks").exists()


def test_a_commit_that_is_no_branch_head(repositories: Repositories, store: Store):
    old = repositories.make("team/tool", {"a": "1"})
    repositories.commit("team/tool", {"a": "2"})
    (top,) = fetch_all("https://forge.test/team/tool", old, False, store)
    assert supply_git.git("show", f"{old}:a", folder=folder_of(top, store)) == "1"


def test_a_server_that_gives_no_single_commits(repositories: Repositories, store: Store, monkeypatch):
    old = repositories.make("team/tool", {"a": "1"})
    repositories.commit("team/tool", {"a": "2"})
    # The oldest protocol gives branch tips only, unless the server allows more.
    monkeypatch.setenv("GIT_CONFIG_COUNT", "4")
    monkeypatch.setenv("GIT_CONFIG_KEY_3", "protocol.version")
    monkeypatch.setenv("GIT_CONFIG_VALUE_3", "0")
    said: list[str] = []
    (top,) = fetch_all("https://forge.test/team/tool", old, False, store, said.append)
    assert any("whole history" in line for line in said)
    assert supply_git.git("show", f"{old}:a", folder=folder_of(top, store)) == "1"


def test_submodules_at_all_depths(repositories: Repositories, store: Store):
    leaf = repositories.make("lib/leaf", {"l": "1"})
    middle = repositories.make("lib/middle", {"m": "1"}, {"deep/leaf": ("lib/leaf", "../leaf.git")})
    top = repositories.make(
        "team/top",
        {"t": "1"},
        {"a": ("lib/middle", "../../lib/middle.git"), "b": ("lib/leaf", "https://forge.test/lib/leaf.git")},
    )
    assert fetch_all("https://forge.test/team/top", top, True, store) == (
        Commit("https://forge.test/team/top", top),
        Commit("https://forge.test/lib/leaf", leaf),
        Commit("https://forge.test/lib/middle", middle),
    )
    assert len(fetch_all("https://forge.test/team/top", top, False, store)) == 1


def test_what_is_there_needs_no_network(repositories: Repositories, store: Store, monkeypatch):
    head = repositories.make("team/tool", {"a": "1"})
    first = fetch_all("https://forge.test/team/tool", head, True, store)
    monkeypatch.setattr(supply_git, "git", lambda *a, **k: pytest.fail("git was started"))
    monkeypatch.setattr(supply_git, "git_with_progress", lambda *a, **k: pytest.fail("git was started"))
    assert fetch_all("https://forge.test/team/tool", head, True, store) == first


def test_a_fetch_that_is_cut_leaves_nothing(repositories: Repositories, store: Store, monkeypatch):
    head = repositories.make("team/tool", {"a": "1"})

    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(supply_git, "git_with_progress", cut)
        with pytest.raises(KeyboardInterrupt):
            fetch_all("https://forge.test/team/tool", head, False, store)
    assert not folder_of(Commit("https://forge.test/team/tool", head), store).exists()
    fetch_all("https://forge.test/team/tool", head, False, store)


def test_flaky_networks_are_tried_again(repositories: Repositories, store: Store, monkeypatch):
    head = repositories.make("team/tool", {"a": "1"})
    fetch, failures = supply_git.git_with_progress, ["gnutls_handshake() failed", "early EOF"]

    def flaky(*arguments: object) -> None:
        if failures:
            raise GitFailed(failures.pop())
        fetch(*arguments)

    monkeypatch.setattr(supply_git, "git_with_progress", flaky)
    said: list[str] = []
    fetch_all("https://forge.test/team/tool", head, False, store, said.append)
    assert [line for line in said if "trying again" in line] == [
        "forge.test/team/tool: early EOF; trying again in 1 s",
        "forge.test/team/tool: gnutls_handshake() failed; trying again in 2 s",
    ]


def test_a_repository_that_is_not_there(repositories: Repositories, store: Store):
    with pytest.raises(SourceError) as error:
        fetch_all("https://forge.test/team/gone", "1" * 40, False, store)
    assert error.value.where == "https://forge.test/team/gone"
    assert "111111111111" in error.value.message


def test_a_commit_that_nobody_has(repositories: Repositories, store: Store):
    repositories.make("team/tool", {"a": "1"})
    with pytest.raises(SourceError, match="no branch or tag of the repository holds"):
        fetch_all("https://forge.test/team/tool", "1" * 40, False, store)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("../b", "https://forge.test/team/b"),
        ("../../lib/b.git", "https://forge.test/lib/b"),
        ("./nested", "https://forge.test/team/top/nested"),
        ("https://other.test/x/y.git", "https://other.test/x/y"),
    ],
)
def test_addresses_of_submodules(url: str, expected: str):
    assert submodule_url("https://forge.test/team/top", "b", url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "git@forge.test:a/b",
        "ext::sh -c id",
        "file:///etc",
        "/etc",
        "http://forge.test/a/b",
        "--upload-pack=id",
        "git://x/y",
    ],
)
def test_submodules_elsewhere_are_refused_by_name(url: str):
    with pytest.raises(UsageError, match=r"submodule 'b'.*not an https://"):
        submodule_url("https://forge.test/team/top", "b", url)


def test_a_transport_that_runs_commands_is_refused_after_insteadof(store: Store, monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.ext::touch {tmp_path}/ran ;.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://forge.test/")
    with pytest.raises(SourceError, match="transport 'ext' not allowed"):
        fetch_all("https://forge.test/team/tool", "1" * 40, False, store)
    assert not (tmp_path / "ran").exists()


def test_the_cause_among_gits_lines():
    lines = [
        "error: RPC failed; curl 56 GnuTLS recv error (-9)",
        "fatal: the remote end hung up unexpectedly",
        "fatal: early EOF",
    ]
    assert first_cause(lines) == "early EOF"
    assert first_cause(["fatal: unable to access 'https://me:pw@forge.test/x/': no"]).endswith(
        "'https://forge.test/x/': no"
    )
    assert first_cause([]) == "git said nothing"
