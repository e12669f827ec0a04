"""git servers, repositories and requests without an end: messages, submodules, bodies."""

from __future__ import annotations

import contextlib
import os
import socket
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.git import serve
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.store import submodules_of, tree_of
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import authorization, connect
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


@pytest.mark.slow
def test_submodules_without_an_end(repositories, store):
    def listed(count: int) -> str:
        return "".join(f'[submodule "m{n}"]\npath = m{n}\nurl = https://example.org/m{n}\n' for n in range(count))

    repositories.make("team/few", {".gitmodules": listed(3)})
    repositories.make("team/many", {".gitmodules": listed(1001)})
    few = fetch(store, "team/few", repositories.commit("team/few", {"a": "1"}))
    assert submodules_of(few, store) == {}
    many = fetch(store, "team/many", repositories.commit("team/many", {"a": "1"}))
    with pytest.raises(UsageError, match="more than 1000 submodules") as error:
        submodules_of(many, store)
    assert error.value.hint.endswith("REPROKIT_LIMIT_SUBMODULES=2000")


Posted = Callable[[Callable[[bytes], Iterable[bytes]]], bytes]


@pytest.fixture
def posted(repositories, store: Store) -> Iterator[Posted]:
    """`posted(body)`: the answer to an authenticated request; `body(want)` has the chunks for what git sends."""
    head = repositories.make("team/top", {"t": "1"})
    commit = GitCommit(
        url="https://forge.test/team/top", commit=head, tree=tree_of(fetch(store, "team/top", head), store)
    )
    want = f"0032want {head}\n00000009done\n".encode()
    with Gateway(store, ServedSet(git=(commit,))) as gateway:

        def post(body: Callable[[bytes], Iterable[bytes]]) -> bytes:
            with contextlib.closing(connect(gateway)) as connection, contextlib.suppress(OSError, HTTPException):
                connection.putrequest("POST", f"http://{serve.Repositories.host}/forge.test/team/top/git-upload-pack")
                for name, value in {**authorization(gateway), "Transfer-Encoding": "chunked"}.items():
                    connection.putheader(name, value)
                connection.endheaders()
                for block in body(want):
                    connection.sock.sendall(block)
                connection.sock.shutdown(socket.SHUT_WR)
                return connection.getresponse().read()
            return b""

        assert b"PACK" in post(lambda want: [b"%X\r\n%s\r\n0\r\n\r\n" % (len(want), want)])
        yield post


@pytest.mark.parametrize("size", [b"+%x", b"0x%x", b"0_%x", b" %x", b"%09x", b"%x" + b" " * 80])
@pytest.mark.slow
def test_sizes_of_chunks_are_hexadecimal_digits(posted: Posted, size: bytes):
    assert b"PACK" not in posted(lambda want: [size % len(want) + b"\r\n", want, b"\r\n0\r\n\r\n"])


def test_a_chunk_does_not_reach_to_the_end_of_the_connection(posted: Posted):
    zeros = bytes(1 << 20)
    tracemalloc.start()
    try:
        posted(lambda want: [b"-1\r\n", *[zeros] * 32])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_request_has_an_end(posted: Posted, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serve, "GIT_REQUEST", 1 << 20)
    sent = 0

    def haves(want: bytes) -> Iterator[bytes]:
        nonlocal sent
        yield b"36\r\n%s\r\n" % want.removesuffix(b"0009done\n")
        for number in range(200):
            block = b"".join(b"0032have %040x\n" % n for n in range(1000 * number, 1000 * number + 1000))
            yield b"%x\r\n%s\r\n" % (len(block), block)
            sent += len(block)

    posted(haves)
    assert 1 << 20 < sent < 9_000_000  # the rest is in the sockets' buffers
