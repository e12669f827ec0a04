"""Strangers on this host, and a build's own steps, against the gateway's memory, threads and time."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from reprokit.supply import gateway as gateway_module
from reprokit.supply.gateway import Gateway
from reprokit.supply.policy import Recorder, locked
from reprokit.supply.serve import server
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from reprokit.untrusted.limits import GATEWAY_NAMES
from tests.support.asking import ask, authorization
from tests.support.waiting import wait_for

FILE = "http://files.reprokit.invalid/x"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(Store(tmp_path / "store"), ServedSet(), locked("paper:cpu"), recorder=Recorder()) as running:
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


def asks(connection: socket.socket, gateway: Gateway) -> int:
    """Ask with the password; the status of the answer."""
    connection.sendall(request(gateway))
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer.status


def request(gateway: Gateway) -> bytes:
    lines = [f"GET {FILE} HTTP/1.1", *(f"{name}: {value}" for name, value in authorization(gateway).items()), "", ""]
    return "\r\n".join(lines).encode()


def ended(connection: socket.socket, seconds: float = 60) -> bool:
    """Whether the other end closes it."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            continue
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.slow
def test_strangers_connections_are_few_threads_and_keep_no_build_away(gateway: Gateway, connections):
    before = threading.active_count()
    for number in range(300):
        connections.append(connect(gateway))
        connections[-1].sendall(b"GET http://example.org/ HTTP/1.1\r\n" if number % 2 else b"")
        assert threading.active_count() - before <= server.CONNECTIONS + 2 * server.PENDING
    wait_for(lambda: threading.active_count() - before <= server.PENDING + 1)
    assert ask(gateway, FILE)[0].status == 404
    assert ended(connections[0])


def test_as_many_authenticated_connections_as_the_helper_carries(gateway: Gateway, connections):
    for _ in range(server.CONNECTIONS + 1):
        connections.append(connect(gateway))
        status = asks(connections[-1], gateway)
        assert status == 404 or len(connections) > server.CONNECTIONS
    assert status == 503 and ended(connections[-1])
    assert asks(connections[0], gateway) == 404
    connections[0].close()
    wait_for(lambda: ask(gateway, FILE)[0].status == 404)


@pytest.mark.parametrize("sent", [b"", b"GET http://example.org/ HTTP/1.1\r\nA: "])
@pytest.mark.slow
def test_a_connection_has_little_time_until_it_is_authenticated(
    gateway: Gateway, connections, monkeypatch, sent: bytes
):
    monkeypatch.setattr(server, "PENDING_S", 0.5)
    slow, own = connect(gateway), connect(gateway)
    connections += [slow, own]
    assert asks(own, gateway) == 404
    slow.settimeout(0.1)
    with contextlib.suppress(ConnectionError):
        slow.sendall(sent)
        while True:  # a server that waited for the rest would outlast the test
            slow.sendall(b"x" if sent else b"")
            with contextlib.suppress(TimeoutError):
                if not slow.recv(100):
                    break
    assert asks(own, gateway) == 404  # an authenticated one may wait between its requests


@pytest.mark.parametrize("shape", ["line", "header", "headers", "body"])
def test_large_requests_take_little_memory(gateway: Gateway, shape: str):
    tracemalloc.start()
    try:
        with connect(gateway) as client, contextlib.suppress(OSError):
            large = b"x" * (1 << 24)
            client.sendall(b"GET http://example.org/" + (large if shape == "line" else b" HTTP/1.1\r\n"))
            if shape == "header":
                client.sendall(b"A: " + large)
            if shape == "headers":
                client.sendall(b"".join(b"A%d: %s\r\n" % (n, large[:60000]) for n in range(99)))
            if shape == "body":
                client.sendall(b"Content-Length: 16777216\r\n\r\n" + large)
            answer = client.recv(65536)
            assert answer.split()[1] in (b"414", b"431", b"407")
        del large
        assert ask(gateway, FILE)[0].status == 404
        now, _ = tracemalloc.get_traced_memory()
        assert now < 4 << 20
    finally:
        tracemalloc.stop()


def test_what_a_build_asks_for_is_remembered_to_a_bound(gateway: Gateway, monkeypatch):
    monkeypatch.setattr(gateway_module, "GATEWAY_NAMES", 20)
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(gateway.url).port, timeout=60)
    for number in range(25):
        connection.request("GET", f"http://host{number}.test/{'x' * 5000}", headers=authorization(gateway))
        answer = connection.getresponse()
        assert answer.status == 403 and b"is not in the lock" in answer.read()
    assert len(gateway.hosts) == len(gateway.refused) == 20
    assert max(map(len, gateway.refused)) == 2000


def test_a_recorder_is_bounded_too():
    recorder = Recorder()
    for number in range(GATEWAY_NAMES + 50):
        recorder.redirected(f"http://a.test/{number}", f"https://b.test/{number}")
    recorder.redirected("http://a.test/long", "https://b.test/" + "x" * 5000)
    assert len(recorder.downloads) == GATEWAY_NAMES and recorder.downloads[7].url == "http://a.test/7"
