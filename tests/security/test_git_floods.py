"""git servers and repositories without an end: messages, and submodules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.store import submodules_of
from tests.support.stores import fetch


@pytest.mark.parametrize("stream", ["1", "2"])
def test_what_git_prints_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str):
    (tmp_path / "git").write_text(f"#!/bin/sh\nexec yes >&{stream}\n")
    (tmp_path / "git").chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(GitFailed, match="more than 64 MiB"):
            git("ls-remote", "--", "https://example.org/x")
    assert git("--version").startswith("git version")


def test_submodules_without_an_end(repositories, store):
    def listed(count: int) -> str:
        return "".join(f'[submodule "m{n}"]\npath = m{n}\nurl = https://example.org/m{n}\n' for n in range(count))

    repositories.make("team/few", {".gitmodules": listed(3)})
    repositories.make("team/many", {".gitmodules": listed(1001)})
    few = fetch(store, "team/few", repositories.commit("team/few", {"a": "1"}))
    assert submodules_of(few, store) == {}
    many = fetch(store, "team/many", repositories.commit("team/many", {"a": "1"}))
    with pytest.raises(UsageError, match="more than 1000 submodules"):
        submodules_of(many, store)
