"""git started in a stranger's checkout: the settings of its repository are not used."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.config import Configuration
from reprokit.errors import SourceError
from reprokit.importing.sources import opened
from reprokit.recipe.fields import git_requirement
from reprokit.recipe.model import Source
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.resolve import commit_of, moved_git
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.rendering import source

pytestmark = pytest.mark.slow

ADDRESS = "https://host.invalid/tool"


def new_from(mirrors: Mirrors) -> None:
    opened(ADDRESS, "", mirrors, print)


def lock(mirrors: Mirrors) -> None:
    project = git_requirement(f"tool @ git+{ADDRESS}@v1")
    assert project
    commit_of(project, {}, mirrors)


def outdated(mirrors: Mirrors) -> None:
    named = Source(**{**source("tool", "/t"), "git": ADDRESS, "commit": "1" * 40, "ref": "v1"})
    assert [moved.what for moved in moved_git([named], [], mirrors)] == ["unknown"]
    raise SourceError("as it should")


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture(params=["a checkout", "a bare repository"])
def checkout(tmp_path: Path, mark: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a repository whose settings run a program that leaves `mark`."""
    root, bare = tmp_path / "checkout", request.param == "a bare repository"
    subprocess.run(["git", "init", "-q", *(["--bare"] if bare else []), str(root)], check=True)
    (tmp_path / "evil").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (tmp_path / "evil").chmod(0o755)
    settings = f"""
[core]
    sshCommand = {tmp_path}/evil
[credential]
    helper = {tmp_path}/evil
[http]
    sslVerify = false
[url "ssh://host.invalid/"]
    insteadOf = https://host.invalid/
"""
    with (root / ("config" if bare else ".git/config")).open("a") as config:
        config.write(settings)
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("command", [new_from, lock, outdated])
@pytest.mark.usefixtures("checkout")
def test_the_current_folder_configures_no_git(command: Callable[[Mirrors], None], mark: Path, store: Store):
    with pytest.raises(SourceError):
        command(Mirrors(store, Configuration()))
    assert not mark.exists()
    subprocess.run(["git", "ls-remote", "--", ADDRESS], check=False, capture_output=True)  # the control
    assert mark.exists()


@pytest.mark.usefixtures("checkout")
def test_only_the_users_own_settings_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "own").write_text('[url "https://mirror.invalid/"]\n\tinsteadOf = https://host.invalid/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "own"))
    assert git("ls-remote", "--get-url", ADDRESS).strip() == "https://mirror.invalid/tool"
    assert "sslverify" not in git("config", "--list")


def test_a_folder_that_is_no_repository_is_none(checkout: Path):
    """git would take the repository around it."""
    (inner := checkout / "store").mkdir()
    with pytest.raises(GitFailed, match="inside a git repository"):
        git("config", "--list", "--local", folder=inner)
