"""A socket in the network of an engine's daemon, wherever that is."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit.engine.listen import listen
from reprokit.errors import EngineError
from tests.support.privileges import need_root
from tests.support.waiting import wait_for

KNOCK = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 120).sendall(b'here')"
# A daemon that only listens on its socket, in a network with a loopback.
DAEMON = """\
import signal, socket, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
signal.pause()
"""


@pytest.fixture
def apart(short_path: Path) -> Iterator[SimpleNamespace]:
    """An engine in another network; `enter` begins a command there."""
    need_root()
    path = short_path / "s"
    with subprocess.Popen(["unshare", "--net", sys.executable, "-c", DAEMON, str(path)]) as daemon:
        try:
            wait_for(path.exists)
            enter = ["nsenter", f"--net=/proc/{daemon.pid}/ns/net", "--"]
            yield SimpleNamespace(socket=str(path), url=f"unix://{path}", enter=enter)
        finally:
            daemon.kill()


def knock(port: int, enter: list[str]) -> bool:
    command = [*enter, sys.executable, "-c", KNOCK, str(port)]
    return not subprocess.run(command, capture_output=True, check=False).returncode


def heard(server: socket.socket) -> bytes:
    server.settimeout(120)
    with server.accept()[0] as client:
        client.settimeout(120)
        return client.recv(4)


def test_the_machines_engine_has_the_machines_network(engine):
    with listen(engine, "127.0.0.1") as server:
        assert knock(server.getsockname()[1], [])
        assert heard(server) == b"here"
    with pytest.raises(EngineError, match="assign requested address"):
        listen(engine, "192.0.2.1")


@pytest.mark.slow
def test_an_engine_in_another_network(apart, monkeypatch):
    with listen(apart, "127.0.0.1") as server:
        port = server.getsockname()[1]
        assert not knock(port, [])
        assert knock(port, apart.enter)
        assert heard(server) == b"here"
    with pytest.raises(EngineError, match="assign requested address"):
        listen(apart, "192.0.2.1")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match=r"cannot be entered: .*nsenter") as error:
        listen(apart, "127.0.0.1")
    assert "reprokit render" in error.value.hint
