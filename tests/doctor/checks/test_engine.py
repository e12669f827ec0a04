"""The engine that answers, the reason if none does, and its storage, isolation and registries."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import pytest

from reprokit.doctor.checks.engine import reachable
from reprokit.doctor.examined import Examined
from reprokit.doctor.shell import LocalShell
from reprokit.engine import Engine
from tests.support.examined import INFO, FakeMachine, PlainEngine


def test_an_engine_that_is_fine_old_or_answers_rubbish(machine: FakeMachine) -> None:
    findings = machine.find("engine")
    assert {finding.severity for finding in findings} == {"info"}
    assert findings[0].subjects == ("engine=24.0.7",) and "rootful, API 1.43" in findings[0].reason
    machine.engine = PlainEngine({**INFO, "ServerVersion": "19.03.8"})
    assert machine.rules("engine") == {"engine.version"}
    for rubbish in ("<html>", [], None):
        machine.engine = PlainEngine(rubbish)
        assert machine.rules("engine") == {"engine.info"}


def test_a_stopped_engine_can_be_started(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.engine = None
    machine.program("systemctl", "")
    for host, fix in (
        ("unix:///run/user/1000/docker.sock", "systemctl --user start docker"),
        ("tcp://192.0.2.1:2375", ""),
    ):
        monkeypatch.setenv("DOCKER_HOST", host)
        (finding,) = machine.find("engine")
        assert (finding.rule, finding.fix) == ("engine.unreachable", fix)


def test_damaged_settings_of_docker_are_a_finding(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> None:
        raise KeyError("Endpoints")

    monkeypatch.setattr(PlainEngine, "info", lambda self: failing())
    assert machine.rules("engine") == {"engine.info"}
    host = machine.host()
    host.connection._function = failing  # type: ignore[assignment]
    (finding,) = reachable(host)
    assert finding.severity == "error" and "KeyError" in finding.reason


@pytest.mark.parametrize("answer", [b"\x00\xff\x1b[2J", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", b""])
def test_a_socket_of_something_else(monkeypatch: pytest.MonkeyPatch, short_path: Path, answer: bytes) -> None:
    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(short_path / "s"))
        server.listen()
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{short_path}/s")
        (finding,) = reachable(Examined(LocalShell(), Engine.connect))
    assert finding.severity == "error" and finding.remedy


@pytest.mark.parametrize(
    ("info", "rules"),
    [
        (INFO, set()),
        ({**INFO, "Driver": "overlayfs", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}, set()),
        ({**INFO, "Driver": "vfs"}, {"storage.driver"}),
        ({**INFO, "Driver": "devicemapper"}, {"storage.driver"}),
        ({**INFO, "DriverStatus": [["Supports d_type", "false"]]}, {"storage.d_type"}),
        ({"DriverStatus": [[1], None, "x", [None, "false"]], "Driver": 3}, set()),
    ],
)
def test_storage(machine: FakeMachine, info: object, rules: set[str]) -> None:
    machine.engine = PlainEngine(info)
    assert machine.rules("storage") == rules


def test_limits_of_containers(machine: FakeMachine) -> None:
    assert machine.rules("isolation") == set()
    machine.engine = PlainEngine({**INFO, "SecurityOptions": None, "MemoryLimit": False})
    assert machine.rules("isolation") == {"isolation.memory", "isolation.seccomp"}


def test_a_login_in_a_container_of_its_own_engine(machine: FakeMachine) -> None:
    inside = "9f" * 32
    mount = f"511 500 8:1 /docker/containers/{inside}/hostname /etc/hostname rw - ext4 /dev/sda1 rw\n"
    machine.file("proc/self/mountinfo", mount)
    machine.engine = PlainEngine(INFO, inside=inside)
    (finding,) = machine.find("nesting")
    assert (finding.rule, finding.severity) == ("nesting.engine", "warning")
    machine.engine = PlainEngine(INFO)
    assert machine.find("nesting") == []


def test_the_engine_needs_a_proxy_of_its_own(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.rules("registry") == set()
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")
    assert machine.rules("registry") == {"registry.proxy"}
    machine.engine = PlainEngine({**INFO, "HttpsProxy": "http://me:hunter2@proxy.test:3128"})
    assert machine.find("registry") == []
