"""Local folders and bare repositories as mirrors of every kind: no network is used."""

from __future__ import annotations

import hashlib
import socket
import subprocess
from pathlib import Path

import pytest

from reprokit.config import Configuration, MirrorEntry
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.kinds.git.fetch import fetch_git
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.locked_input import Commit, LockedInput
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch):
    """Block the network: every proxy refuses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{taken.getsockname()[1]}")
        for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def mirrors(store: Store, **lists: str) -> Mirrors:
    entries = tuple(MirrorEntry(kind, value, "test") for kind, value in lists.items())
    return Mirrors(store, Configuration(entries), pip=PipSettings(), apt=AptSettings())


def test_files_of_every_kind(cut: None, store: Store, tmp_path: Path):
    def put(path: str, kind: str, fields: dict[str, str], *urls: str) -> LockedInput:
        data = f"{kind} {path}".encode()
        sha256 = hashlib.sha256(data).hexdigest()
        file = tmp_path / "srv" / path.replace("BY-HASH", sha256)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return LockedInput(kind, file.name, sha256, len(data), {"name": file.name, **fields}, urls)

    wheel = "torch-1.12.1+cu113-cp38-cp38-linux_x86_64.whl"
    conda = {"channel": "conda-forge", "subdir": "noarch", "file": "x-1-0.conda"}
    wants = [
        put("debian/pool/main/g/g++_1_amd64.deb", "apt", {"archive": "debian", "path": "pool/main/g/g++_1_amd64.deb"}),
        put(f"wheels/{wheel}", "wheels", {"name": "torch", "version": "1.12.1+cu113", "file": wheel}),
        put("conda-forge/noarch/x-1-0.conda", "conda", conda),
        put("by-hash/BY-HASH", "files", {}, "https://forge.invalid/cub.zip"),
    ]
    root = (tmp_path / "srv").as_uri()
    places = mirrors(
        store,
        apt=f"{root}/{{archive}}/{{path}}",
        wheels=f"{root}/wheels",
        conda=f"{root}/{{channel}}",
        files=f"{root}/by-hash/{{sha256}}",
    )
    fetched = fetch_all(wants, places)
    assert fetched.files == 4
    assert all(store.path(want.sha256).is_file() for want in wants)


def test_a_bare_repository(cut: None, store: Store, tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q")
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    commit, tree = git(work, "rev-parse", "HEAD", "HEAD^{tree}").split()
    git(work, "clone", "-q", "--bare", str(work), str(tmp_path / "git" / "team" / "tool.git"))
    locked = GitCommit(url="https://forge.invalid/team/tool", commit=commit, tree=tree)
    places = mirrors(store, git=f"file://{tmp_path}/git/{{owner}}/{{repo}}.git")
    assert fetch_git([locked], places) == 1
    assert folder_of(Commit(locked.url, commit), store).is_dir()
