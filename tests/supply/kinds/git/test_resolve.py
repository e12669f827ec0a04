from __future__ import annotations

import pytest
from pydantic import ValidationError

from reprokit.config import Configuration, MirrorEntry
from reprokit.errors import SourceError, UsageError
from reprokit.recipe.model import Source
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.kinds.git.resolve import lock_git, moved_git
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.kinds.kind import Moved
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.fetching import local_mirrors
from tests.support.repositories import Repositories


def places(store: Store) -> Mirrors:
    return local_mirrors(store)


def source(name: str, commit: str, submodules: bool | list[str] = True, ref: str = "") -> Source:
    return Source(name="s", git=f"https://forge.test/{name}", commit=commit, ref=ref, path="/s", submodules=submodules)


def lock(wanted: Source, store: Store) -> tuple[GitCommit, ...]:
    return lock_git(wanted, places(store), lambda line: None)


@pytest.mark.slow
def test_submodules_at_all_depths_with_their_trees(repositories: Repositories, store: Store):
    leaf = repositories.make("lib/leaf", {"l": "1"})
    middle = repositories.make("lib/middle", {"m": "1"}, {"deep/leaf": ("lib/leaf", "../leaf.git")})
    top = repositories.make(
        "team/top",
        {"t": "1"},
        {"a": ("lib/middle", "../../lib/middle.git"), "b": ("lib/leaf", "https://forge.test/lib/leaf.git")},
    )
    expected = tuple(
        GitCommit(url=f"https://forge.test/{n}", commit=c, tree=repositories.git(n, "rev-parse", "HEAD^{tree}"))
        for n, c in (("team/top", top), ("lib/leaf", leaf), ("lib/middle", middle))
    )
    assert lock(source("team/top", top), store) == expected
    assert lock(source("team/top", top, submodules=False), store) == expected[:1]


def test_a_file_of_submodules_that_names_none(repositories: Repositories, store: Store):
    top = repositories.make("team/top", {".gitmodules": "", "t": "1"})
    assert [commit.commit for commit in lock(source("team/top", top), store)] == [top]


@pytest.mark.slow
def test_only_the_submodules_at_listed_paths(repositories: Repositories, store: Store):
    leaf = repositories.make("lib/leaf", {"l": "1"})
    gone, ssh = ("lib/leaf", "https://forge.test/lib/gone.git"), ("lib/leaf", "git@forge.test:lib/leaf.git")
    middle = repositories.make("lib/middle", {"m": "1"}, {"deep/leaf": ("lib/leaf", "../leaf.git"), "clang": gone})
    modules = {"a": ("lib/middle", "../../lib/middle.git"), "test/bats": gone, "private": ssh}
    top = repositories.make("team/top", {"t": "1"}, modules)
    found = lock(source("team/top", top, submodules=["a", "a/deep/leaf"]), store)
    assert [commit.commit for commit in found] == [top, leaf, middle]
    assert [commit.commit for commit in lock(source("team/top", top, submodules=["a"]), store)] == [top, middle]
    for wrong, where in (("a/leaf", "lib/middle"), ("b", "team/top"), ("test", "team/top")):
        with pytest.raises(UsageError, match=f"{where} has no submodule at '{wrong.removeprefix('a/')}'"):
            lock(source("team/top", top, submodules=["a", wrong]), store)
    with pytest.raises(SourceError, match="gone"):
        lock(source("team/top", top, submodules=["test/bats"]), store)


@pytest.mark.parametrize(
    "path", ["../x", "/etc", "a//b", "a/../b", "-C", "a/-b", ".git/modules", "", "a b", "a;b", "$(id)"]
)
def test_paths_of_submodules_stay_inside(path: str):
    with pytest.raises(ValidationError):
        source("team/top", "1" * 40, submodules=[path])


def test_locked_once_needs_no_git(repositories: Repositories, store: Store, monkeypatch: pytest.MonkeyPatch):
    head = repositories.make("team/tool", {"a": "1"})
    first = lock(source("team/tool", head), store)
    monkeypatch.setenv("PATH", "")
    assert lock(source("team/tool", head), store) == first


def test_what_left_the_store_is_fetched_again(repositories: Repositories, store: Store):
    head = repositories.make("team/tool", {"a": "1"})
    first = lock(source("team/tool", head), store)
    folder = folder_of(Commit("https://forge.test/team/tool", head), store)
    folder.rename(folder.with_name("away"))
    assert lock(source("team/tool", head), store) == first
    assert folder.is_dir()


def test_what_moved(repositories: Repositories, store: Store):
    one = repositories.make("team/tool", {"a": "1"})
    repositories.git("team/tool", "tag", "-a", "-m", "one", "v1")
    repositories.git("team/tool", "tag", "v2")
    named = [source("team/tool", one, ref=ref) for ref in ("main", "v1", "v2", "")]
    locked = lock(named[0], store)
    assert moved_git(named, locked, places(store)) == []
    two = repositories.commit("team/tool", {"a": "2"})
    repositories.git("team/tool", "tag", "-f", "v1")
    repositories.git("team/tool", "tag", "-d", "v2")
    assert moved_git(named, locked, places(store)) == [
        Moved("git", "s main", one, two, "newer"),
        Moved("git", "s v1", one, two, "changed"),
        Moved("git", "s v2", one, "", "vanished"),
    ]


def test_a_commit_that_its_repository_has_no_more(repositories: Repositories, store: Store):
    old = repositories.make("team/tool", {"a": "1"})
    locked = lock(source("team/tool", old), store)
    repositories.git(
        "team/tool", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--amend", "-m", "b"
    )
    repositories.git("team/tool", "reflog", "expire", "--expire=now", "--all")
    repositories.git("team/tool", "gc", "-q", "--prune=now")
    assert moved_git([], locked, places(store)) == [Moved("git", "forge.test/team/tool", old, "", "vanished")]


def test_a_repository_that_does_not_answer_is_unknown(repositories: Repositories, store: Store):
    head = repositories.make("team/tool", {"a": "1"})
    locked = lock(source("team/tool", head), store)
    (repositories.root / "team" / "tool.git").rename(repositories.root / "away")
    found = moved_git([source("team/tool", head, ref="main")], locked, places(store))
    assert [(m.name, m.what) for m in found] == [("forge.test/team/tool", "unknown"), ("s main", "unknown")]
    assert all("tool" in m.upstream for m in found)


def mirrored(store: Store, repositories: Repositories) -> Mirrors:
    entry = MirrorEntry("git", f"file://{repositories.root}/{{owner}}/{{repo}}.git", "test")
    return Mirrors(store, Configuration((entry,)), pip=PipSettings(), apt=AptSettings())


def test_a_mirror_answers_for_a_repository_that_cannot_be_reached(repositories: Repositories, store: Store):
    """The repository was unpublished, or a firewall is in the way; a mirror may lack a commit."""
    one = repositories.make("team/tool", {"a": "1"})
    two = repositories.commit("team/tool", {"a": "2"})
    locked = [GitCommit(url="https://unreached.test/team/tool", commit=c, tree="2" * 40) for c in (one, "1" * 40)]
    named = [source("team/tool", one, ref="main").model_copy(update={"git": locked[0].url})]
    found = moved_git(named, locked, mirrored(store, repositories))
    assert [(m.name, m.locked, m.what) for m in found] == [
        ("s main", one, "newer"),
        ("unreached.test/team/tool", "1" * 40, "unknown"),
    ]
    assert found[0].upstream == two and "unreached.test cannot be reached" in found[1].upstream


def test_the_error_of_a_repository_names_the_setting_of_mirrors(repositories: Repositories, store: Store):
    repositories.make("team/tool", {"a": "1"})
    for url, what in (("https://unreached.test/a/b", "cannot be reached"), ("https://forge.test/team/no", "does not")):
        with pytest.raises(SourceError, match=what) as error:
            lock_git(Source(name="s", git=url, commit="1" * 40, path="/s"), places(store), lambda line: None)
        assert "REPROKIT_GIT_MIRRORS" in error.value.hint
