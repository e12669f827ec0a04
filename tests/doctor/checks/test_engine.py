"""The engine: which one answers, and why none does."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import pytest

from reprokit.doctor.checks import engine
from reprokit.doctor.examined import Examined
from reprokit.doctor.shell import LocalShell
from reprokit.engine import Engine
from tests.support.examined import INFO, FakeMachine, PlainEngine


def test_an_engine_that_is_fine(machine: FakeMachine) -> None:
    found = machine.find(engine)
    assert {finding.severity for finding in found} == {"info"}
    assert found[0].subjects == ("engine=24.0.7",) and "rootful, API 1.43" in found[0].reason


@pytest.mark.parametrize(
    ("info", "rule"),
    [
        ({**INFO, "ServerVersion": "19.03.8"}, "engine.version"),
        ("<html>", "engine.info"),
        ([], "engine.info"),
        (None, "engine.info"),
    ],
)
def test_an_engine_that_is_old_or_answers_rubbish(machine: FakeMachine, info: object, rule: str) -> None:
    machine.engine = PlainEngine(info)
    assert machine.rules(engine) == {rule}


def test_a_stopped_engine_can_be_started(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.engine = None
    machine.program("systemctl", "")
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/1000/docker.sock")
    (found,) = machine.find(engine)
    assert (found.rule, found.fix) == ("engine.unreachable", "systemctl --user start docker")
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    (found,) = machine.find(engine)
    assert found.fix == ""


def test_damaged_settings_of_docker_are_a_finding(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    def failing() -> None:
        raise KeyError("Endpoints")

    monkeypatch.setattr(PlainEngine, "info", lambda self: failing())
    assert machine.rules(engine) == {"engine.info"}
    host = machine.host()
    host.connection._function = failing  # type: ignore[assignment]
    (found,) = engine.find(host)
    assert found.severity == "error" and "KeyError" in found.reason


@pytest.mark.parametrize("answer", [b"\x00\xff\x1b[2J", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", b""])
def test_a_socket_of_something_else(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        threading.Thread(target=_answer, args=(server, answer), daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
        (found,) = engine.find(Examined(LocalShell(), Engine.connect))
    assert found.severity == "error" and found.remedy


def _answer(server: socket.socket, answer: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)
