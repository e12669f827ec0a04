"""Git objects that are small packed and huge unpacked."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from reprokit.config import Configuration
from reprokit.errors import SourceError, UsageError
from reprokit.importing.tree import CommitTree
from reprokit.recipe.model import Source
from reprokit.supply.kinds.git.archive import archive_of
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.resolve import lock_git
from reprokit.supply.kinds.git.store import folder_of, unpack
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.rendering import source
from tests.support.repositories import Repositories
from tests.support.stores import fetch

pytestmark = pytest.mark.long

COMMIT, BLOB = 1, 3


def a_pack(path: Path, kind: int, size: int) -> Path:
    """A pack with one object of `size` zeros, as gitformat-pack(5) describes it."""
    header, rest = kind << 4 | size & 15, size >> 4
    data = b"PACK" + struct.pack(">II", 2, 1)
    while rest:
        data, header, rest = data + bytes([header | 128]), rest & 127, rest >> 7
    squeeze, block = zlib.compressobj(9), bytes(1 << 20)
    data += bytes([header]) + b"".join(squeeze.compress(block[: size - at]) for at in range(0, size, len(block)))
    data += squeeze.flush()
    path.write_bytes(data + hashlib.sha1(data).digest())
    return path


def unpacked(tmp_path: Path, kind: int, size: int) -> str:
    return unpack(a_pack(tmp_path / "pack", kind, size), Commit("https://h.test/a/b", "1" * 40), (), tmp_path / "r")


def test_a_pack_of_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as limited:
        limited.setenv("REPROKIT_LIMIT_UNPACKED", str(64 << 20))
        with pytest.raises(UsageError, match="more than 67108864 bytes unpacked from") as caught:
            unpacked(tmp_path, BLOB, 65 << 20)
    assert "REPROKIT_LIMIT_UNPACKED=134217728" in caught.value.hint
    assert "object missing" in unpacked(tmp_path, BLOB, 65 << 20)  # the control: only the commit is not in it


def test_a_file_of_zeros_in_a_repository(repositories: Repositories, store: Store, monkeypatch: pytest.MonkeyPatch):
    head = repositories.make("team/tool", {"zeros": "0" * (65 << 20)})
    with monkeypatch.context() as limited:
        limited.setenv("REPROKIT_LIMIT_UNPACKED", str(64 << 20))
        with pytest.raises(UsageError, match="more than 67108864 bytes unpacked from"):
            fetch(store, "team/tool", head)
    assert not list(store.root.rglob("*.git"))
    assert folder_of(fetch(store, "team/tool", head), store).is_dir()  # the control


def test_an_object_that_git_reads_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as limited:
        limited.setenv("REPROKIT_LIMIT_GIT_MEMORY", str(64 << 20))
        with pytest.raises(UsageError, match="git takes more than 67108864 bytes of memory") as caught:
            unpacked(tmp_path, COMMIT, 65 << 20)
        assert "object missing" in unpacked(tmp_path, BLOB, 65 << 20)  # the control: a file is streamed
    assert "REPROKIT_LIMIT_GIT_MEMORY=134217728" in caught.value.hint


def deltas(path: Path, size: int, count: int) -> Path:
    """A pack of zeros, and of deltas that each copy all of them and add a number."""

    def entry(kind: int, size: int, data: bytes, before: bytes = b"") -> bytes:
        first, rest, header = kind << 4 | size & 15, size >> 4, b""
        while rest:
            first, rest, header = rest & 127, rest >> 7, header + bytes([first | 128])
        return header + bytes([first]) + before + zlib.compress(data, 9)

    def number(value: int) -> bytes:
        return bytes([value & 127 | 128]) + number(value >> 7) if value > 127 else bytes([value])

    def distance(value: int) -> bytes:
        found = [value & 127]
        while value := value >> 7:
            value -= 1
            found.insert(0, value & 127 | 128)
        return bytes(found)

    data = bytearray(b"PACK" + struct.pack(">II", 2, count + 1) + entry(BLOB, size, bytes(size)))
    for n in range(count):
        copy = b"\xf0" + struct.pack("<I", size)[:3] + b"\x08" + b"%08d" % n
        delta = number(size) + number(size + 8) + copy
        data += entry(6, len(delta), delta, distance(len(data) - 12))
    path.write_bytes(data + hashlib.sha1(data).digest())
    return path


def test_a_small_pack_of_large_deltas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """5 kB make 1.5 GB. A small pack has a sixtieth of git's time."""
    monkeypatch.setenv("REPROKIT_LIMIT_GIT_SECONDS", "60")
    packed, commit = deltas(tmp_path / "pack", 15 << 20, 100), Commit("https://h.test/a/b", "1" * 40)
    with pytest.raises(UsageError, match="git takes more than 1 seconds of processor time") as caught:
        unpack(packed, commit, (), tmp_path / "r")
    assert "REPROKIT_LIMIT_GIT_SECONDS=120" in caught.value.hint
    monkeypatch.setenv("REPROKIT_LIMIT_GIT_SECONDS", "6000")  # the control
    with pytest.raises(UsageError, match=f"bytes unpacked from {packed.stat().st_size} bytes"):
        unpack(packed, commit, (), tmp_path / "s")


def test_a_server_that_sends_a_small_pack_of_a_large_file(
    repositories: Repositories, store: Store, monkeypatch: pytest.MonkeyPatch
):
    """600 kB make 600 MB. The whole fetch has a minute, a small pack a second of it."""
    repositories.make("team/tool", {"a": ""})
    author = b"committer t <t@example.org> 0 +0000"
    stream = b"commit refs/heads/bomb\n%b\ndata 0\nM 644 inline zeros\ndata %d\n" % (author, size := 600 << 20)
    with subprocess.Popen(
        ["git", "-C", repositories.root / "team/tool.git", "-c", "core.compression=1", "fast-import", "--quiet"],
        stdin=subprocess.PIPE,
    ) as importing:
        assert importing.stdin is not None
        importing.stdin.write(stream)
        for _ in range(size >> 20):
            importing.stdin.write(bytes(1 << 20))
        importing.stdin.close()
    assert importing.returncode == 0
    head = repositories.git("team/tool", "rev-parse", "bomb")
    with monkeypatch.context() as limited:
        limited.setenv("REPROKIT_LIMIT_GIT_SECONDS", "60")
        with pytest.raises(UsageError, match="git takes more than 1 seconds of processor time") as caught:
            fetch(store, "team/tool", head)
    assert "REPROKIT_LIMIT_GIT_SECONDS=120" in caught.value.hint
    assert not list(store.root.rglob("*.git"))
    fetch(store, "team/tool", repositories.git("team/tool", "rev-parse", "bomb"))  # the control
    assert list(store.root.rglob("*.git"))


def test_every_program_of_git_has_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nulimit -S -d\nulimit -S -t\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert git("--version").split() == [str(512 << 10), "600"]
    program.write_text("#!/bin/sh\nkill -XCPU $$\n")
    with pytest.raises(UsageError, match="git takes more than 600 seconds of processor time") as caught:
        git("--version")
    assert "REPROKIT_LIMIT_GIT_SECONDS=1200" in caught.value.hint
    program.write_text("#!/bin/sh\necho 'remote: Out of memory' >&2\nexit 1\n")
    with pytest.raises(GitFailed, match="Out of memory"):  # the server's
        git("--version")


def test_a_tree_with_more_paths_than_can_be_listed(
    repositories: Repositories, store: Store, monkeypatch: pytest.MonkeyPatch
):
    """Ten names for the same folder, six levels deep."""

    def tree(lines: str) -> str:
        command = ["git", "-C", str(repositories.root / "team/tool.git"), "mktree"]
        return subprocess.run(command, input=lines, check=True, capture_output=True, text=True).stdout.strip()

    repositories.make("team/tool", {"a": ""})
    inner = repositories.git("team/tool", "rev-parse", "HEAD^{tree}")
    for _ in range(6):
        inner = tree("".join(f"040000 tree {inner}\t{n}\n" for n in range(10)))
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    head = repositories.git("team/tool", *identity, "commit-tree", "-m", "bomb", inner)
    repositories.git("team/tool", "update-ref", "refs/heads/bomb", head)
    commit = fetch(store, "team/tool", head)
    with pytest.raises(SourceError, match="git printed more than 64 MiB"):
        CommitTree(folder_of(commit, store), commit.url, head)
    monkeypatch.setenv("REPROKIT_LIMIT_ENTRIES", "1000")
    with pytest.raises(UsageError, match="more than 1000 files in an archive"):
        archive_of(commit, store)


def test_submodules_that_double(repositories: Repositories, store: Store, monkeypatch: pytest.MonkeyPatch):
    """Each of four repositories has the next one at two paths: 30 submodules in 5 repositories."""
    address, head = "", ""
    for n in range(5):
        inner = (f"team/m{n - 1}", address)
        head = repositories.make(f"team/m{n}", {"a": "1"}, {"left": inner, "right": inner} if n else {})
        address = f"https://forge.test/team/m{n}"
    top = Source(**{**source("m", "/m"), "git": address, "commit": head, "submodules": True})
    found = lock_git(top, Mirrors(store, Configuration()), print)
    assert len(found) == 5
    assert archive_of(found[0].address, store).is_file()  # the control
    monkeypatch.setenv("REPROKIT_LIMIT_SUBMODULES", "29")
    with pytest.raises(UsageError, match="more than 29 submodules"):
        archive_of(found[0].address, store)
