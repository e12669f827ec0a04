"""Strangers on this host, and a build's own steps, against the gateway's memory, threads and time."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from reprokit.supply import gateway as gateway_module
from reprokit.supply.gateway import Gateway, Recorder, locked
from reprokit.supply.kinds.git import serve
from reprokit.supply.kinds.git.store import tree_of
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support import asking
from tests.support.asking import ask, authorization
from tests.support.stores import fetch
from tests.support.waiting import wait_for

FILE = "http://files.reprokit.invalid/x"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(Mirrors(Store(tmp_path / "store")), policy=locked("paper:cpu"), recorder=Recorder()) as running:
        yield running


@pytest.fixture
def connections(gateway: Gateway) -> Iterator[list[socket.socket]]:
    """Open connections, which are closed afterwards."""
    made: list[socket.socket] = []
    yield made
    for each in made:
        each.close()


def connect(gateway: Gateway) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(gateway.url).port or 0), 60)


def status_of(connection: socket.socket, gateway: Gateway) -> int:
    """The status of the answer to a request with the password."""
    lines = [f"GET {FILE} HTTP/1.1", *(f"{name}: {value}" for name, value in authorization(gateway).items()), "", ""]
    connection.sendall("\r\n".join(lines).encode())
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer.status


def ended(connection: socket.socket) -> bool:
    """Whether the other end closes it."""
    connection.settimeout(60)
    with contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            continue
    return True


@pytest.mark.slow
def test_strangers_connections_are_few_threads_and_keep_no_build_away(gateway: Gateway, connections):
    before = threading.active_count()
    for number in range(300):
        connections.append(connect(gateway))
        connections[-1].sendall(b"GET http://example.org/ HTTP/1.1\r\n" if number % 2 else b"")
        assert threading.active_count() - before <= gateway_module.CONNECTIONS + 2 * gateway_module.PENDING
    wait_for(lambda: threading.active_count() - before <= gateway_module.PENDING + 1)
    assert ask(gateway, FILE)[0].status == 404
    assert ended(connections[0])


def test_as_many_authenticated_connections_as_the_helper_carries(gateway: Gateway, connections):
    for _ in range(gateway_module.CONNECTIONS + 1):
        connections.append(connect(gateway))
        status = status_of(connections[-1], gateway)
        assert status == 404 or len(connections) > gateway_module.CONNECTIONS
    assert status == 503 and ended(connections[-1])
    assert status_of(connections[0], gateway) == 404
    connections[0].close()
    wait_for(lambda: ask(gateway, FILE)[0].status == 404)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"GET http://example.org/ HTTP/1.1\r\nA: "])
def test_a_connection_has_little_time_until_it_is_authenticated(gateway: Gateway, connections, monkeypatch, sent):
    monkeypatch.setattr(gateway_module, "PENDING_S", 0.5)
    slow, own = connect(gateway), connect(gateway)
    connections += [slow, own]
    assert status_of(own, gateway) == 404
    slow.settimeout(0.1)
    with contextlib.suppress(ConnectionError):
        slow.sendall(sent)
        while True:  # a server that waited for more would outlast the test
            slow.sendall(b"x" if sent else b"")
            with contextlib.suppress(TimeoutError):
                if not slow.recv(100):
                    break
    assert status_of(own, gateway) == 404  # an authenticated one may wait between its requests


LARGE = b"x" * (1 << 24)
REQUESTS = {
    "line": (b"GET http://example.org/", LARGE),
    "header": (b"GET http://example.org/ HTTP/1.1\r\nA: ", LARGE),
    "headers": (b"GET http://example.org/ HTTP/1.1\r\n", *(b"A%d: %s\r\n" % (n, LARGE[:60000]) for n in range(99))),
    "body": (b"GET http://example.org/ HTTP/1.1\r\nContent-Length: 16777216\r\n\r\n", LARGE),
}


@pytest.mark.parametrize("shape", REQUESTS)
def test_large_requests_take_little_memory(gateway: Gateway, shape: str):
    tracemalloc.start()
    try:
        with connect(gateway) as client, contextlib.suppress(OSError):
            for part in REQUESTS[shape]:
                client.sendall(part)
            assert client.recv(65536).split()[1] in (b"414", b"431", b"407")
        assert ask(gateway, FILE)[0].status == 404
        assert tracemalloc.get_traced_memory()[0] < 4 << 20
    finally:
        tracemalloc.stop()


def test_names_that_a_build_asks_for_are_kept_to_a_bound(gateway: Gateway, monkeypatch):
    monkeypatch.setattr(gateway_module, "GATEWAY_NAMES", 20)
    connection = asking.connect(gateway)
    for number in range(25):
        connection.request("GET", f"http://host{number}.test/{'x' * 5000}", headers=authorization(gateway))
        answer = connection.getresponse()
        assert answer.status == 403 and b"is not in the lock" in answer.read()
    assert len(gateway.hosts) == len(gateway.refused) == 20
    assert max(map(len, gateway.refused)) == 2000
    recorder = Recorder()
    for number in range(70):
        recorder.redirected(f"http://a.test/{number}", f"https://b.test/{number}")
    recorder.redirected("http://a.test/long", "https://b.test/" + "x" * 5000)
    assert len(recorder.downloads) == 20 and recorder.downloads[7].url == "http://a.test/7"


# --- What git sends to the repositories of a build

Posted = Callable[[Callable[[bytes], Iterable[bytes]]], bytes]


@pytest.fixture
def posted(repositories, store: Store) -> Iterator[Posted]:
    """`posted(body)`: the answer to an authenticated request; `body(want)` has the chunks for what git sends."""
    head = repositories.make("team/top", {"t": "1"})
    tree = tree_of(fetch(store, "team/top", head), store)
    commit = GitCommit(url="https://forge.test/team/top", commit=head, tree=tree)
    want = f"0032want {head}\n00000009done\n".encode()
    with Gateway(Mirrors(store), ServedSet(git=(commit,))) as gateway:

        def post(body: Callable[[bytes], Iterable[bytes]]) -> bytes:
            connection = asking.connect(gateway)
            with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
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


@pytest.mark.slow
def test_chunks_have_a_plain_size_and_an_end(posted: Posted):
    for size in (b"+%x", b"0x%x", b"0_%x", b" %x", b"%09x", b"%x" + b" " * 80):
        assert b"PACK" not in posted(lambda want, size=size: [size % len(want) + b"\r\n", want, b"\r\n0\r\n\r\n"])
    zeros = bytes(1 << 20)
    tracemalloc.start()
    try:
        posted(lambda want: [b"-1\r\n", *[zeros] * 32])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_request_has_an_end(posted: Posted, monkeypatch):
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
    assert 1 << 20 < sent < 9_000_000  # what is sent beyond the limit is in the sockets' buffers
