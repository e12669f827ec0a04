"""The shell of the block git, run as it is rendered, against repositories on this disk."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from reprokit.image.render import render
from tests.support.forge import Forge
from tests.support.rendering import target

FILES = {name: "x" for name in ("deep/file", "docs/big", "file", "include/x", "tools/util/y")}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repositories of forge.test, which is github.com, too, below `remote`, and a home with settings of git."""
    root = tmp_path_factory.mktemp("git")
    (root / "remote").mkdir()
    (root / "remote" / "github.com").symlink_to("forge.test")
    (root / ".gitconfig").write_text('[protocol "file"]\n\tallow = always\n')
    return root


@pytest.fixture(scope="module")
def forge(root: Path) -> Forge:
    forge = Forge(root / "remote" / "forge.test")
    forge.publish("lib/leaf", {"leaf": "x"})
    return forge


@pytest.fixture(scope="module")
def plain(forge: Forge) -> str:
    """A commit of team/a that is no head of a branch."""
    commit = forge.publish("team/a", FILES)
    forge.commit("team/a", "later")
    return commit


def run(root: Path, tmp_path: Path, writable: bool = False, **source) -> subprocess.CompletedProcess[str]:
    """Runs what the build stage of git would, without its apt, with `tmp_path/product` as /product."""
    entry = {"name": "a", "git": "https://forge.test/team/a", "path": f"{tmp_path}/src", **source}
    text = render(target(tmp_path, sources=[entry], blocks=[{"git": {"writable": ["a"] if writable else []}}]))
    dockerfile = text.dockerfile.replace("/product", f"{tmp_path}/product")
    stage = dockerfile[dockerfile.index("FROM base AS git") :].partition("\nFROM ")[0]
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_CONFIG")}
    env |= {"HOME": str(root), "REPROKIT_GIT": f"file://{root}/remote/"}
    errors = ""
    for script in stage.split("\nRUN ")[2:]:
        command = "\n".join(line for line in script.splitlines() if not line.startswith(("#", "ARG")))
        done = subprocess.run(["sh", "-c", command], cwd=root, env=env, capture_output=True, text=True)
        done.stderr = errors = errors + done.stderr
        if done.returncode:
            break
    return done


def files(tmp_path: Path) -> list[str]:
    return sorted(str(path.relative_to(tmp_path / "src")) for path in (tmp_path / "src").rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("source", "expected"),
    [({}, [*FILES]), ({"submodules": []}, [*FILES]), ({"subset": ["include", "tools/util"]}, [*FILES][3:])],
    ids=["all", "no submodules", "subset"],
)
def test_a_commit_that_is_no_head_without_gits_own_files(root, plain, tmp_path, source, expected):
    done = run(root, tmp_path, commit=plain, **source)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == expected


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ({"subset": ["includes"]}, ""),
        ({"submodules": ["missing"]}, "did not match any file"),
        ({"submodules": ["deep"]}, ""),
        ({"commit": "f" * 40}, ""),
    ],
    ids=["subset", "submodule", "folder", "commit"],
)
def test_what_the_repository_lacks_fails(root, plain, tmp_path, source, error):
    done = run(root, tmp_path, **{"commit": plain, **source})
    assert done.returncode != 0 and error in done.stderr
    assert "commit" not in source or not (tmp_path / "src" / "file").exists()


def test_a_writable_source_is_so_for_everyone(root, plain, tmp_path):
    assert run(root, tmp_path, writable=True, commit=plain).returncode == 0
    copied = tmp_path / "product" / str(tmp_path / "src").lstrip("/")
    modes = [path.stat().st_mode & 0o777 for path in (copied, copied / "deep", copied / "deep/file")]
    assert modes == [0o777, 0o777, 0o666]


@pytest.mark.slow
def test_submodules_stand_at_their_commits(root, forge, tmp_path):
    forge.commit("team/dep", "file", submodule="lib/leaf")  # at 3rd, by a relative address
    commit = forge.publish("team/top", {"top": "x"}, {"far": "team/dep"})
    for name in ("lib/leaf", "team/dep", "team/top"):
        forge.commit(name, "later")
    expected = [".gitmodules", "far/.gitmodules", "far/3rd/leaf", "far/file", "top"]
    # The old protocol asks the server whether a commit may be fetched; by default only heads may.
    for protocol, refused in (("2", False), ("0", True)):
        subprocess.run(["git", "config", "-f", root / ".gitconfig", "protocol.version", protocol], check=True)
        (folder := tmp_path / protocol).mkdir()
        done = run(root, folder, git="https://forge.test/team/top", commit=commit, submodules=True)
        assert done.returncode == 0, done.stderr
        assert files(folder) == expected
        assert ("unadvertised object" in done.stderr) is refused


@pytest.mark.slow
def test_only_the_submodules_at_listed_paths(root, forge, tmp_path):
    forge.publish("gone", {"a": "x"})
    forge.publish("team/some", {"file": "x"}, {"deep/nested": "lib/leaf", "unneeded": "gone"})
    commit = forge.publish("team/listed", {"top": "x"}, {"3rdparty/dep": "team/some", "bats": "gone"})
    shutil.rmtree(forge.root / "gone.git")
    listed = ["3rdparty/dep/deep/nested", "3rdparty/dep"]
    done = run(root, tmp_path, git="https://forge.test/team/listed", commit=commit, submodules=listed)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "src/3rdparty/dep/deep/nested/leaf").read_text() == "x"
    assert not list((tmp_path / "src/bats").iterdir()) and not list((tmp_path / "src/3rdparty/dep/unneeded").iterdir())
