"""The shell of the block git, run as it is rendered, against repositories on this disk."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from reprokit.image.render import render
from tests.support.rendering import target

pytestmark = pytest.mark.slow

IDENTITY = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class Remote:
    """Repositories that `https://example.org/o/NAME` means, below `folder`; `home` is the one of git's users."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "remote" / "example.org" / "o"
        self.home = folder / "home"
        self.home.mkdir()
        self.env = {**os.environ, **IDENTITY, "HOME": str(self.home), "REPROKIT_GIT": f"file://{folder}/remote/"}
        self.env = {k: v for k, v in self.env.items() if not k.startswith("GIT_CONFIG")}
        self.git("config", "--global", "protocol.file.allow", "always", at=folder)

    def git(self, *args: str, at: Path) -> str:
        done = subprocess.run(["git", *args], cwd=at, env=self.env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, name: str, **files: str) -> str:
        """A commit with these files (`a__b` is a/b), and another after it, so that it is no branch's head."""
        repository = self.root / name
        if not repository.exists():
            repository.mkdir(parents=True)
            self.git("init", "-q", at=repository)
        for path, text in files.items():
            file = repository / path.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git("add", ".", at=repository)
        self.git("commit", "-qm", "wanted", at=repository)
        wanted = self.git("rev-parse", "HEAD", at=repository)
        self.git("commit", "-q", "--allow-empty", "-m", "later", at=repository)
        return wanted

    def submodule(self, name: str, commit: str, inside: str, path: str, url: str) -> str:
        """A commit of `inside` that has the repository `name` at `path`, called `url` there."""
        repository = self.root / inside
        self.git("submodule", "add", "-q", f"file://{self.root / name}", path, at=repository)
        self.git("checkout", "-q", commit, at=repository / path)
        modules = repository / ".gitmodules"
        modules.write_text(modules.read_text().replace(f"file://{self.root / name}", url))
        return self.commit(inside)


@pytest.fixture
def remote(tmp_path):
    return Remote(tmp_path)


def run(remote: Remote, tmp_path: Path, writable: bool = False, **source) -> subprocess.CompletedProcess[str]:
    """Runs what the build stage of git would, without its apt, with `tmp_path/product` as /product."""
    entry = {"name": "a", "git": "https://example.org/o/a", "path": f"{tmp_path}/src", **source}
    blocks = [{"git": {"writable": ["a"] if writable else []}}]
    text = render(target(tmp_path, sources=[entry], blocks=blocks)).dockerfile.replace(
        "/product", f"{tmp_path}/product"
    )
    stage = text[text.index("FROM base AS git") :].partition("\nFROM ")[0]
    scripts, errors = stage.split("\nRUN ")[2:], ""
    for script in scripts:
        lines = [line for line in script.splitlines() if not line.startswith(("#", "ARG"))]
        done = subprocess.run(
            ["sh", "-c", "\n".join(lines)], cwd=remote.home, env=remote.env, capture_output=True, text=True, check=False
        )
        done.stderr = errors = errors + done.stderr
        if done.returncode:
            break
    return done


def test_a_commit_that_is_no_head_without_gits_own_files(remote, tmp_path):
    commit = remote.commit("a", file="one", deep__file="two")
    assert run(remote, tmp_path, commit=commit).returncode == 0
    src = tmp_path / "src"
    assert sorted(str(f.relative_to(src)) for f in src.rglob("*")) == ["deep", "deep/file", "file"]


def test_a_subset_is_all_that_is_there(remote, tmp_path):
    commit = remote.commit("a", include__x="1", docs__big="2", tools__util__y="3")
    assert run(remote, tmp_path, commit=commit, subset=["include", "tools/util"]).returncode == 0
    assert sorted(f.name for f in (tmp_path / "src").rglob("*") if f.is_file()) == ["x", "y"]


def test_a_subset_that_the_commit_lacks_fails(remote, tmp_path):
    commit = remote.commit("a", include__x="1")
    assert run(remote, tmp_path, commit=commit, subset=["includes"]).returncode != 0


@pytest.mark.parametrize("refusing", [False, True], ids=["", "servers refuse commits by name"])
@pytest.mark.parametrize("url", ["../dep", "https://example.org/o/dep"])
def test_submodules_stand_at_their_commits(remote, tmp_path, url, refusing):
    if refusing:
        # The old protocol asks the server whether a commit may be wanted; by default only heads may.
        remote.git("config", "--global", "protocol.version", "0", at=tmp_path)
    leaf = remote.commit("leaf", leaf="x")
    remote.commit("dep", file="wanted")
    dep = remote.submodule("leaf", leaf, "dep", "nested", "../leaf")
    remote.commit("a", file="top")
    commit = remote.submodule("dep", dep, "a", "3rdparty/dep", url)
    done = run(remote, tmp_path, commit=commit, submodules=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "src/3rdparty/dep/nested/leaf").read_text() == "x"
    assert not list((tmp_path / "src").rglob(".git"))
    assert ("unadvertised object" in done.stderr) is refusing


@pytest.mark.parametrize("refusing", [False, True], ids=["", "servers refuse commits by name"])
def test_only_the_submodules_at_listed_paths(remote, tmp_path, refusing):
    if refusing:
        remote.git("config", "--global", "protocol.version", "0", at=tmp_path)
    leaf = remote.commit("leaf", leaf="x")
    remote.commit("dep", file="wanted")
    remote.submodule("leaf", leaf, "dep", "deep/nested", "../leaf")
    dep = remote.submodule("leaf", leaf, "dep", "unneeded", "https://example.org/o/gone")
    remote.commit("a", file="top")
    remote.submodule("dep", dep, "a", "3rdparty/dep", "../dep")
    commit = remote.submodule("leaf", leaf, "a", "bats", "https://example.org/o/gone")
    done = run(remote, tmp_path, commit=commit, submodules=["3rdparty/dep/deep/nested", "3rdparty/dep"])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "src/3rdparty/dep/deep/nested/leaf").read_text() == "x"
    assert not list((tmp_path / "src/bats").iterdir()) and not list((tmp_path / "src/3rdparty/dep/unneeded").iterdir())


def test_a_listed_path_without_a_submodule_fails(remote, tmp_path):
    commit = remote.commit("a", folder__file="x")
    assert "did not match any file" in run(remote, tmp_path, commit=commit, submodules=["missing"]).stderr
    assert run(remote, tmp_path, commit=commit, submodules=["folder"]).returncode != 0


def test_a_commit_that_is_nowhere_fails(remote, tmp_path):
    remote.commit("a", file="one")
    done = run(remote, tmp_path, commit="f" * 40)
    assert done.returncode != 0
    assert not (tmp_path / "src" / "file").exists()


def test_a_writable_source_is_so_for_everyone(remote, tmp_path):
    commit = remote.commit("a", deep__file="x")
    assert run(remote, tmp_path, writable=True, commit=commit).returncode == 0
    copied = tmp_path / "product" / str(tmp_path / "src").lstrip("/")
    modes = [path.stat().st_mode & 0o777 for path in (copied, copied / "deep", copied / "deep/file")]
    assert modes == [0o777, 0o777, 0o666]


def test_an_empty_list_of_submodules_means_none(remote, tmp_path):
    commit = remote.commit("a", file="x")
    done = run(remote, tmp_path, commit=commit, submodules=[])
    assert done.returncode == 0, done.stderr
    assert [f.name for f in (tmp_path / "src").iterdir()] == ["file"]
