"""What an engine is asked for, recorded at its socket, and GPUs given for real by a hook with a harmless device."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running
from reprokit.container.settings import RunOptions
from reprokit.engine import Engine
from reprokit.errors import EngineError
from tests.support.privileges import need_root

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("gpu-hook")]


class Recorder:
    """A socket between a client and the engine that keeps the bodies of create requests."""

    def __init__(self, path: Path) -> None:
        self.url = f"unix://{path}"
        self.bodies: list[dict] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect("/var/run/docker.sock")
                threading.Thread(target=self._copy, args=(client, engine, True), daemon=True).start()
                threading.Thread(target=self._copy, args=(engine, client, False), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, recorded: bool) -> None:
        kept = b""
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if recorded:
                    kept = self._note(kept + data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def _note(self, kept: bytes) -> bytes:
        """What follows the last whole request of `kept`; only those with a body of stated length matter here."""
        while b"\r\n\r\n" in kept:
            head, _, rest = kept.partition(b"\r\n\r\n")
            lengths = [line[15:] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            length = int(lengths[0]) if lengths else 0
            if len(rest) < length:
                return kept
            if b"/containers/create" in head.split(b"\r\n")[0]:
                self.bodies.append(json.loads(rest[:length]))
            kept = rest[length:]
        return kept

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def recorder(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[Recorder]:
    recorder = Recorder(tmp_path_factory.mktemp("s") / "s")
    yield recorder
    recorder.close()


def _hook(count: int, devices: list[str]) -> list[dict]:
    request = {"Driver": "", "Count": count, "DeviceIDs": devices, "Capabilities": [["gpu"]], "Options": {}}
    return [request]


@pytest.mark.parametrize(
    ("gpus", "requests"),
    [
        ("all", _hook(-1, [])),
        ("1", _hook(1, [])),
        ("device=0,1", _hook(0, ["0", "1"])),
        ("device=GPU-11-22", _hook(0, ["GPU-11-22"])),
        ("none", []),
        ("0", []),
    ],
)
def test_the_request_at_the_engines_socket(recorder, made, monkeypatch, gpus, requests):
    monkeypatch.setenv("DOCKER_HOST", recorder.url)
    monkeypatch.setattr("reprokit.host.gpu.gpus", lambda: [])
    client = Engine.connect()
    said: list[str] = []
    # No test machine has GPUs; where one has, it is given them.
    with contextlib.suppress(EngineError):
        ensure_running(client, made, RunOptions(gpus=gpus), said.append)
    body = recorder.bodies[0]
    assert body["HostConfig"]["DeviceRequests"] == requests
    assert ("NVIDIA_VISIBLE_DEVICES=void" in body["Env"]) == (requests == [])
    assert any("asks for no GPU" in line for line in said) == (gpus == "0")
    assert body["HostConfig"].get("Privileged") is None


def test_cdi_is_asked_by_device_names(recorder, made, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", recorder.url)
    client = Engine.connect()
    devices = [{"Source": "cdi", "ID": f"nvidia.com/gpu={i}"} for i in ("0", "1", "all")]
    info = {**client.info(), "CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": devices}
    monkeypatch.setattr(client, "info", lambda: info)
    with pytest.raises(EngineError, match="GPUs"):
        ensure_running(client, made, RunOptions(gpus="2"))
    asked = [body["HostConfig"]["DeviceRequests"][0] for body in recorder.bodies]
    assert [(r["Driver"], r["DeviceIDs"], r["Count"]) for r in asked] == [
        ("cdi", ["nvidia.com/gpu=0", "nvidia.com/gpu=1"], 0),
        ("", [], 2),
    ]


def test_no_gpu_support_is_one_clear_error(made, call):
    done = call("run", made.recipe.name, "--gpus", "all", "--", "true")
    assert done.returncode == 3
    assert "cannot hand GPUs to containers" in done.stderr
    assert "NVIDIA Container Toolkit" in done.stderr


def test_a_recipe_that_may_have_a_gpu_goes_on_without(engine, recipe):
    said: list[str] = []
    name = ensure_running(engine, recipe("    requires: {gpu: optional}\n"), notify=said.append)
    assert any("without" in line for line in said)
    assert execute(engine, name, ["true"]).exit_code == 0


def test_a_driver_that_proves_useless_too(engine, recipe, monkeypatch):
    monkeypatch.setattr("reprokit.host.gpu.has_device_file", lambda: True)
    said: list[str] = []
    name = ensure_running(engine, recipe("    requires: {gpu: optional}\n"), notify=said.append)
    assert "continuing without a GPU" in said[-1]
    assert execute(engine, name, ["printenv", "NVIDIA_VISIBLE_DEVICES"]).stdout == "void\n"


def test_a_recipe_that_needs_a_gpu_does_not(engine, recipe):
    with pytest.raises(EngineError, match="GPU"):
        ensure_running(engine, recipe("    requires: {gpu: required}\n"))


# As NVIDIA's does it: reads the devices from the container's environment and makes them in its own mount namespace.
HOOK = """#!/usr/bin/env python3
import json, pathlib, subprocess, sys
state = json.load(sys.stdin)
config = json.loads(pathlib.Path(state["bundle"], "config.json").read_text())
env = dict(e.split("=", 1) for e in config["process"]["env"])
pathlib.Path(__file__).with_name("asked").write_text(env.get("NVIDIA_VISIBLE_DEVICES", "-"))
device = pathlib.Path(config["root"]["path"], "dev", "nvidia0")
subprocess.run(["nsenter", "-t", str(state["pid"]), "-m", "mknod", "-m", "666", str(device), "c", "1", "3"], check=True)
"""


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory, when_up) -> Iterator[tuple[Engine, Path]]:
    """A second engine whose PATH begins with the hook, and the file in which the hook notes what was asked."""
    need_root()
    folder = tmp_path_factory.mktemp("d")
    hook = folder / "bin" / "nvidia-container-runtime-hook"
    hook.parent.mkdir()
    hook.write_text(HOOK)
    hook.chmod(0o755)
    options = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
    arguments = [f"--{option}={folder / name}" for option, name in options.items()]
    # A network namespace of its own: without a bridge an engine removes the first engine's.
    daemon = subprocess.Popen(
        [
            "unshare",
            "--net",
            "dockerd",
            *arguments,
            f"--host=unix://{folder / 's'}",
            "--bridge=none",
            "--iptables=false",
        ],
        env={**os.environ, "PATH": f"{hook.parent}:{os.environ['PATH']}"},
        stdout=(folder / "log").open("wb"),
        stderr=subprocess.STDOUT,
    )
    try:
        yield when_up(folder, daemon), hook.with_name("asked")
    finally:
        daemon.terminate()
        daemon.wait(120)


def test_a_device_arrives_through_the_hook(engine, hooked, made, sh):
    second, asked = hooked
    second.api.load_image(engine.api.get_image(f"reprokit/{made.label}"))
    said: list[str] = []
    name = ensure_running(second, made, RunOptions(gpus="device=0,1", network="none"), said.append)
    assert said[2:] == ["GPUs: device=0,1, through NVIDIA runtime"]
    assert asked.read_text() == "0,1"
    looked = execute(second, name, ["sh", "-c", "test -c /dev/nvidia0 && echo x > /dev/nvidia0 && echo there"])
    assert looked.stdout == "there\n", looked
    ensure_running(second, made, RunOptions(gpus="none"))
    assert execute(second, name, ["ls", "/dev/nvidia0"]).exit_code != 0
    ensure_running(second, made, RunOptions(gpus="all"))
    assert asked.read_text() == "all"
