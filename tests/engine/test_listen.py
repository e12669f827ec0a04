"""A socket in the network of an engine's daemon, wherever that is."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.engine.listen import listen
from reprokit.errors import EngineError
from tests.support.other_engine import OtherEngine

pytestmark = pytest.mark.engine
KNOCK = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 120).sendall(b'here')"


@pytest.fixture(scope="module")
def apart() -> Iterator[OtherEngine]:
    with tempfile.TemporaryDirectory(prefix="reprokit-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        other = OtherEngine(Path(folder), Path(folder) / "data")
        yield other
        other.stop()


def knock(port: int, enter: list[str]) -> bool:
    command = [*enter, sys.executable, "-c", KNOCK, str(port)]
    return not subprocess.run(command, capture_output=True, check=False).returncode


def heard(server: socket.socket) -> bytes:
    server.settimeout(120)
    with server.accept()[0] as client:
        client.settimeout(120)
        return client.recv(4)


def test_the_machines_engine_has_the_machines_network(engine: Engine):
    with listen(engine, "127.0.0.1") as server:
        assert knock(server.getsockname()[1], [])
        assert heard(server) == b"here"


def test_an_engine_in_another_network(apart: OtherEngine):
    with listen(apart.connect(), "127.0.0.1") as server:
        port = server.getsockname()[1]
        assert not knock(port, [])
        assert knock(port, ["nsenter", f"--net=/proc/{apart.process.pid}/ns/net", "--"])
        assert heard(server) == b"here"


def test_an_address_that_the_network_does_not_have(engine: Engine, apart: OtherEngine):
    for each in (engine, apart.connect()):
        with pytest.raises(EngineError, match="assign requested address"):
            listen(each, "192.0.2.1")


def test_a_network_that_cannot_be_entered(apart: OtherEngine, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match=r"cannot be entered: .*nsenter") as error:
        listen(apart.connect(), "127.0.0.1")
    assert "reprokit render" in error.value.hint
