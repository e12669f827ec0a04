"""Engines that cannot be used, each said in one line with its remedy."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError
from tests.support.privileges import as_root

NOBODY = 65534


@pytest.fixture
def closed_socket(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An engine's socket that only its owner may use."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        path = Path(folder) / "docker.sock"
        server.bind(str(path))
        server.listen()
        Path(folder).chmod(0o755)
        path.chmod(0o600)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        yield


@as_root()
def test_a_user_whom_the_engine_does_not_know(closed_socket):
    os.seteuid(NOBODY)
    try:
        with pytest.raises(EngineError, match="may not talk to the Docker Engine") as error:
            Engine.connect()
    finally:
        os.seteuid(0)
    assert error.value.exit_code == 3 and "usermod -aG docker" in error.value.hint


def test_no_engine(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    with pytest.raises(EngineError, match="no Docker Engine answers") as error:
        Engine.connect()
    assert error.value.exit_code == 3 and error.value.where == f"unix://{tmp_path}/none"
    assert "systemctl start docker" in error.value.hint and "unset DOCKER_HOST" in error.value.hint


@pytest.mark.parametrize(
    ("host", "cause"), [("tcp://127.0.0.1:1", "Connection refused"), ("ssh://me@127.0.0.1", "needs .* paramiko")]
)
def test_an_address_of_another_machine(monkeypatch, host: str, cause: str):
    monkeypatch.setenv("DOCKER_HOST", host)
    monkeypatch.delattr("docker.api.client.SSHHTTPAdapter", raising=False)
    with pytest.raises(EngineError, match=cause) as error:
        Engine.connect()
    assert "from $DOCKER_HOST" in error.value.hint and "systemctl" not in error.value.hint


def test_a_rootless_engine_is_started_by_its_user(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/4711/docker.sock")
    with pytest.raises(EngineError) as error:
        Engine.connect()
    assert "`systemctl --user start docker`" in error.value.hint
