from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pydantic import ValidationError

from reprokit.config import MirrorEntry
from reprokit.errors import SourceError, UsageError
from reprokit.recipe.model import Source
from reprokit.supply.kinds.git.command import GitFailed, first_cause
from reprokit.supply.kinds.git.fetch import unread
from reprokit.supply.kinds.git.resolve import changed_commits, lock_git
from reprokit.supply.kinds.git.serve import archive_of
from reprokit.supply.kinds.git.store import folder_of, submodule_url
from reprokit.supply.kinds.kind import UpstreamChange
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.locked_input import Commit
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.fetching import local_mirrors
from tests.support.repositories import TOOL, Repositories


def source(name: str, commit: str, submodules: bool | list[str] = True, ref: str = "") -> Source:
    return Source(name="s", git=f"https://forge.test/{name}", commit=commit, ref=ref, path="/s", submodules=submodules)


def lock(requested: Source, store: Store) -> tuple[GitCommit, ...]:
    return lock_git(requested, local_mirrors(store))


@pytest.mark.slow
def test_submodules_at_all_depths_with_their_trees(repositories: Repositories, store: Store):
    leaf = repositories.make("lib/leaf", {"l": "1"})
    gone, ssh = ("lib/leaf", "https://forge.test/lib/gone.git"), ("lib/leaf", "git@forge.test:lib/leaf.git")
    middle = repositories.make("lib/middle", {"m": "1"}, {"deep/leaf": ("lib/leaf", "../leaf.git")})
    modules = {"a": ("lib/middle", "../../lib/middle.git"), "b": ("lib/leaf", "https://forge.test/lib/leaf.git")}
    top = repositories.make("team/top", {"t": "1"}, modules)
    expected = tuple(
        GitCommit(url=f"https://forge.test/{n}", commit=c, tree=repositories.git(n, "rev-parse", "HEAD^{tree}"))
        for n, c in (("team/top", top), ("lib/leaf", leaf), ("lib/middle", middle))
    )
    assert lock(source("team/top", top), store) == expected
    assert lock(source("team/top", top, submodules=False), store) == expected[:1]
    empty = repositories.make("team/empty", {".gitmodules": "", "t": "1"})  # names no submodule
    assert [commit.commit for commit in lock(source("team/empty", empty), store)] == [empty]
    # Only those at listed paths.
    modules = {"a": modules["a"], "test/bats": gone, "private": ssh}
    some = repositories.make("team/some", {"t": "1"}, modules)
    for paths, commits in ((["a", "a/deep/leaf"], [some, leaf, middle]), (["a"], [some, middle])):
        assert [each.commit for each in lock(source("team/some", some, submodules=paths), store)] == commits
    for wrong, where in (("a/leaf", "lib/middle"), ("b", "team/some"), ("test", "team/some")):
        with pytest.raises(UsageError, match=f"{where} has no submodule at '{wrong.removeprefix('a/')}'"):
            lock(source("team/some", some, submodules=["a", wrong]), store)
    with pytest.raises(SourceError, match="gone"):
        lock(source("team/some", some, submodules=["test/bats"]), store)


@pytest.mark.parametrize(
    "path", ["../x", "/etc", "a//b", "a/../b", "-C", "a/-b", ".git/modules", "", "a b", "a;b", "$(id)"]
)
def test_paths_of_submodules_stay_inside(path: str):
    with pytest.raises(ValidationError):
        source("team/top", "1" * 40, submodules=[path])


def test_locked_once_needs_no_git_until_it_left_the_store(
    repositories: Repositories, store: Store, monkeypatch: pytest.MonkeyPatch
):
    head = repositories.make("team/tool", {"a": "1"})
    first = lock(source("team/tool", head), store)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "")
        assert lock(source("team/tool", head), store) == first
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
    assert changed_commits(named, locked, local_mirrors(store)) == []
    two = repositories.commit("team/tool", {"a": "2"})
    repositories.git("team/tool", "tag", "-f", "v1")
    repositories.git("team/tool", "tag", "-d", "v2")
    assert changed_commits(named, locked, local_mirrors(store)) == [
        UpstreamChange("git", "s main", one, two, "newer"),
        UpstreamChange("git", "s v1", one, two, "changed"),
        UpstreamChange("git", "s v2", one, "", "vanished"),
    ]


def test_a_commit_that_its_repository_has_no_more(repositories: Repositories, store: Store):
    old = repositories.make("team/tool", {"a": "1"})
    locked = lock(source("team/tool", old), store)
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    repositories.git("team/tool", *who, "commit", "-q", "--amend", "-m", "b")
    repositories.git("team/tool", "reflog", "expire", "--expire=now", "--all")
    repositories.git("team/tool", "gc", "-q", "--prune=now")
    assert changed_commits([], locked, local_mirrors(store)) == [
        UpstreamChange("git", "forge.test/team/tool", old, "", "vanished")
    ]
    (repositories.root / "team" / "tool.git").rename(repositories.root / "away")
    unknown = changed_commits([source("team/tool", old, ref="main")], locked, local_mirrors(store))
    assert [(m.name, m.what) for m in unknown] == [("forge.test/team/tool", "unknown"), ("s main", "unknown")]
    assert all("tool" in m.upstream for m in unknown)


def test_a_mirror_answers_for_a_repository_that_cannot_be_reached(repositories: Repositories, store: Store):
    """The repository was unpublished, or a firewall is in the way; a mirror may lack a commit."""
    one = repositories.make("team/tool", {"a": "1"})
    two = repositories.commit("team/tool", {"a": "2"})
    locked = [GitCommit(url="https://unreached.test/team/tool", commit=c, tree="2" * 40) for c in (one, "1" * 40)]
    named = [source("team/tool", one, ref="main").model_copy(update={"git": locked[0].url})]
    entry = MirrorEntry("git", f"file://{repositories.root}/{{owner}}/{{repo}}.git", "test")
    newer, unknown = changed_commits(named, locked, local_mirrors(store, entry))
    assert (newer.name, newer.locked, newer.what, newer.upstream) == ("s main", one, "newer", two)
    assert (unknown.name, unknown.locked, unknown.what) == ("unreached.test/team/tool", "1" * 40, "unknown")
    assert "unreached.test cannot be reached" in unknown.upstream


def test_the_error_of_a_repository_names_the_setting_of_mirrors(repositories: Repositories, store: Store):
    repositories.make("team/tool", {"a": "1"})
    for url, what in (("https://unreached.test/a/b", "cannot be reached"), ("https://forge.test/team/no", "does not")):
        with pytest.raises(SourceError, match=what) as error:
            lock(Source(name="s", git=url, commit="1" * 40, path="/s"), store)
        assert "REPROKIT_GIT_MIRRORS" in error.value.hint


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
    assert first_cause([]) == "git gave no reason"
    for cause, hint in (("unable to access 'https://x': 503", "proxies"), ("early EOF", "by hand")):
        assert hint in unread(GitFailed(cause), "https://x").hint


def test_an_archive_has_submodules_and_runs_no_filter(
    repositories: Repositories, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    repositories.make("team/inner", {"deep.txt": "deep"})
    files = {"a.txt": "a", ".gitattributes": "* filter=evil\n"}
    commit = repositories.make("team/tool", files, {"3rd": ("team/inner", "https://forge.test/team/inner")})
    lock(source("team/tool", commit), store)
    settings = tmp_path / "gitconfig"
    settings.write_text(f'[filter "evil"]\n\tsmudge = touch {tmp_path}/ran; cat\n\trequired = true\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    packed = archive_of(Commit(TOOL, commit), store)
    with tarfile.open(packed) as tar:
        found = {m.name: tar.extractfile(m).read() for m in tar if m.isreg()}  # type: ignore[union-attr]
    assert found[f"{commit}/a.txt"] == b"a" and found[f"{commit}/3rd/deep.txt"] == b"deep"
    assert not (tmp_path / "ran").exists()
    assert packed.read_bytes()[4:8] == bytes(4), "gzip's date: the same commit is the same bytes"
    with pytest.raises(SourceError, match="cannot be read"):
        archive_of(Commit(TOOL, "0" * 40), store)


def test_a_tag_at_another_commit_has_another_address():
    def address(commit: str, *others: GitCommit) -> str:
        tag = GitCommit(url=TOOL, commit=commit * 40, tree="0" * 40, ref="v1")
        return ServedSet(git=[tag, *others]).arguments()["REPROKIT_ARCHIVES"]

    other = GitCommit(url=TOOL, commit="3" * 40, tree="0" * 40)
    assert address("1") != address("2") and address("1") == address("1", other)
