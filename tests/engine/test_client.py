"""Engines that cannot be used, and errors of engines: each in one line with its remedy."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import docker.errors
import pytest

from reprokit.engine import Engine
from reprokit.engine.failures import address, address_source, translated
from reprokit.errors import EngineError, UsageError
from tests.support.privileges import as_root

NOBODY = 65534


@as_root()
def test_a_user_whom_the_engine_does_not_know(short_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = short_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        short_path.chmod(0o755)
        path.chmod(0o600)  # only its owner may use it
        os.seteuid(NOBODY)
        try:
            with pytest.raises(EngineError, match="may not talk to the Docker Engine") as error:
                Engine.connect()
        finally:
            os.seteuid(0)
    assert error.value.exit_code == 3 and "usermod -aG docker" in error.value.hint


@pytest.mark.parametrize(
    ("host", "cause", "hints"),
    [
        ("unix:///nowhere/none", "no Docker Engine answers", ["systemctl start docker", "unset DOCKER_HOST"]),
        ("unix:///run/user/4711/docker.sock", "", ["`systemctl --user start docker`"]),
        ("unix:///run/user/4711/podman/podman.sock", "", ["`systemctl --user start podman.socket`"]),
        ("tcp://127.0.0.1:1", "Connection refused", ["from $DOCKER_HOST"]),
        ("ssh://me@127.0.0.1", "needs .* paramiko", ["from $DOCKER_HOST"]),
    ],
)
def test_no_engine(monkeypatch, host: str, cause: str, hints: list[str]):
    monkeypatch.setenv("DOCKER_HOST", host)
    monkeypatch.delattr("docker.api.client.SSHHTTPAdapter", raising=False)
    with pytest.raises(EngineError, match=cause or None) as error:
        Engine.connect()
    assert error.value.exit_code == 3 and (host.startswith("ssh:") or error.value.where == host)
    assert all(hint in error.value.hint for hint in hints)
    assert ("systemctl" in error.value.hint) == host.startswith("unix:")


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Docker configuration with the context `lab`, which is not the current one, and no variable of an engine."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "docker"
    meta = folder / "contexts" / "meta" / hashlib.sha256(b"lab").hexdigest()
    meta.mkdir(parents=True)
    endpoints = {"docker": {"Host": "unix:///nowhere/lab.sock", "SkipTLSVerify": False}}
    (meta / "meta.json").write_text(json.dumps({"Name": "lab", "Metadata": {}, "Endpoints": endpoints}))
    (folder / "config.json").write_text("{}")
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    return folder / "config.json"


def test_which_engine_is_used(contexts: Path, monkeypatch: pytest.MonkeyPatch):
    """`DOCKER_HOST` comes first, then Docker's context, then podman's variable, then the default socket."""
    assert (address(), address_source()) == ("unix:///var/run/docker.sock", "the default socket")
    expected = [
        ("CONTAINER_HOST", "unix:///nowhere/podman.sock", "unix:///nowhere/podman.sock", "$CONTAINER_HOST"),
        ("DOCKER_CONTEXT", "lab", "unix:///nowhere/lab.sock", "Docker's context lab"),
        ("DOCKER_HOST", "unix:///nowhere/docker.sock", "unix:///nowhere/docker.sock", "$DOCKER_HOST"),
    ]
    for variable, value, host, source in expected:
        monkeypatch.setenv(variable, value)
        assert (address(), address_source()) == (host, source)
        with pytest.raises(EngineError) as error:
            Engine.connect()
        assert error.value.where == host and "systemctl" in error.value.hint
        assert (f"unset {variable}" in error.value.hint) == (variable != "DOCKER_CONTEXT")
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.delenv("DOCKER_CONTEXT")
    contexts.write_text('{"currentContext": "lab"}')
    assert (address(), address_source()) == ("unix:///nowhere/lab.sock", "Docker's context lab")


def test_podmans_variable_is_where_the_client_connects(contexts: Path, short_path: Path, monkeypatch):
    path = short_path / "p.sock"
    monkeypatch.setenv("CONTAINER_HOST", f"unix://{path}")
    answer = b'{"ApiVersion": "1.41"}'
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            with server.accept()[0] as client:
                client.recv(1 << 16)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
                client.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(answer), answer))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        engine = Engine.connect()
        thread.join()
    assert (engine.socket, engine.url) == (str(path), f"unix://{path}")


@pytest.mark.parametrize("setting", ["variable", "file"])
def test_a_context_that_does_not_exist_is_no_other_engine(contexts: Path, monkeypatch, setting: str):
    if setting == "file":
        contexts.write_text('{"currentContext": "gone"}')
    else:
        monkeypatch.setenv("DOCKER_CONTEXT", "gone")
    with pytest.raises(EngineError, match=r"context( gone)? does not exist") as error:
        Engine.connect()
    assert "docker context ls" in error.value.hint


@pytest.mark.parametrize(
    "message",
    [
        "driver failed programming external connectivity on endpoint x (6b2): Bind for 127.0.0.1:8888 failed: "
        "port is already allocated",
        "driver failed programming external connectivity on endpoint x (6b2): Error starting userland proxy: listen "
        "tcp4 127.0.0.1:8888: bind: address already in use",
        "failed to set up container networking: failed to bind host port 127.0.0.1:8888/tcp: address already in use",
        "rootlessport listen tcp 127.0.0.1:8888: bind: address already in use",
    ],
)
def test_a_taken_port_is_named_in_one_line(message):
    with pytest.raises(UsageError) as error, translated(where="c"):
        raise docker.errors.APIError("500", explanation=message)
    assert error.value.message == "127.0.0.1:8888 is in use, by another program or container"


def test_podman_without_its_init_names_the_package():
    message = "container create: container-init binary not found on the host: stat /usr/libexec/podman/catatonit: ..."
    with pytest.raises(EngineError) as error, translated(where="c"):
        raise docker.errors.APIError("500", explanation=message)
    assert "catatonit" in error.value.hint


class Broken(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


def answering(raw: io.IOBase) -> Engine:
    """An engine whose API answers each request with these bytes."""
    answer = SimpleNamespace(status_code=200, raw=raw, close=lambda: None, raise_for_status=lambda: None)
    return Engine(SimpleNamespace(_url=lambda *_: "", get=lambda *_, **__: answer, timeout=1))


def test_whose_error_it_is_when_reading_a_containers_file_fails():
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OSError) as raised, answering(io.BytesIO(b"x")).archive("c", "/x") as blocks:
        next(blocks)
        raise full
    assert raised.value is full
    reset = pytest.raises(EngineError, match=r"the engine stopped answering: .*Connection reset")
    with reset, answering(Broken()).archive("c", "/x") as blocks:
        next(blocks)
