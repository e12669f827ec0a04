"""Requests for GPUs: what users write, what an engine is asked for, and a hook that makes a harmless device."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from reprokit.container import gpu
from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running
from reprokit.container.settings import RunOptions
from reprokit.errors import EngineError, UsageError
from tests.support.other_engine import OtherEngine

CDI = ("nvidia.com/gpu=0", "nvidia.com/gpu=1", "nvidia.com/gpu=GPU-abc", "nvidia.com/gpu=all")


def test_what_users_write():
    two = gpu.GpuRequest(devices=("0", "1"))
    requests = {"all": gpu.ALL, "none": gpu.NONE, "0": gpu.NONE, "2": gpu.GpuRequest(2), "device=0,1": two}
    requests |= {f"device={name}": gpu.GpuRequest(devices=(name,)) for name in ("GPU-1a-2b", "MIG-1a")}
    for text, request in (requests | {'"device=0,1"': two}).items():
        assert gpu.parse_gpus(text) == request
        assert gpu.parse_gpus(str(request)) == request
    for text in ("", "any", "-1", "1.5", "device=", "device=0,", "device=0,0", "0,1", "device=a b"):
        with pytest.raises(UsageError):
            gpu.parse_gpus(text)


def _ids(text: str) -> list[str]:
    first = gpu.ladder(gpu.parse_gpus(text), CDI)[0]
    assert first.name == "CDI"
    (request,) = first.requests
    assert request["Driver"] == "cdi"
    assert request["Count"] == 0
    return request["DeviceIDs"]


def test_cdi_comes_first_and_names_devices():
    assert _ids("all") == ["nvidia.com/gpu=all"]
    assert _ids("1") == ["nvidia.com/gpu=0"]
    assert _ids("2") == ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]
    assert _ids("device=1,GPU-abc") == ["nvidia.com/gpu=1", "nvidia.com/gpu=GPU-abc"]
    for text in ("3", "device=4"):
        with pytest.raises(UsageError):
            _ids(text)


def test_the_runtime_is_asked_by_capability():
    for text, count, ids in (("all", -1, []), ("2", 2, []), ("device=0,1", 0, ["0", "1"])):
        (rung,) = gpu.ladder(gpu.parse_gpus(text), ())
        (request,) = rung.requests
        assert (request["Count"], request["DeviceIDs"]) == (count, ids)
        assert request["Capabilities"] == [["gpu"]]
    assert gpu.ladder(gpu.NONE, CDI) == [gpu.Rung("none", ())]


def test_the_engines_refusals_are_told_from_other_errors():
    words = 'could not select device driver "" with capabilities: [[gpu]]'
    assert gpu.refused(words)
    assert gpu.refused("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=9")
    assert not gpu.refused("port is already allocated")
    assert "Container Toolkit" in gpu.no_gpu_error(gpu.ALL, words).hint
    assert "nvidia-smi" in gpu.no_gpu_error(gpu.ALL, "nvidia-container-cli: initialization error").hint


@pytest.mark.parametrize("gpus", ["device=0,1", "0"])
def test_the_request_to_the_engine(engine, made, monkeypatch, gpus, reported: list[str]):
    create, bodies = engine.create_container, []

    def accept(name: str, body: dict) -> str:
        """As an engine with GPUs does: this one refuses the request."""
        bodies.append(body)
        return create(name, {**body, "HostConfig": {**body["HostConfig"], "DeviceRequests": []}})

    monkeypatch.setattr(engine, "create_container", accept)
    monkeypatch.setattr("reprokit.host.gpu.gpus", lambda: [])
    ensure_running(engine, made, RunOptions(gpus=gpus))
    request = {"Driver": "", "Count": 0, "DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]], "Options": {}}
    assert bodies[0]["HostConfig"]["DeviceRequests"] == [request] * (gpus != "0")
    assert ("NVIDIA_VISIBLE_DEVICES=void" in bodies[0]["Env"]) == (gpus == "0")
    assert any("asks for no GPU" in line for line in reported) == (gpus == "0")
    assert (f"GPUs: {gpus}, through NVIDIA runtime" in reported) == (gpus != "0")


def test_cdi_is_asked_by_device_names(engine, made, monkeypatch):
    create, bodies = engine.create_container, []
    monkeypatch.setattr(engine, "create_container", lambda name, body: bodies.append(body) or create(name, body))
    devices = tuple(f"nvidia.com/gpu={i}" for i in ("0", "1", "all"))
    info = replace(engine.info(), cdi_folders=("/etc/cdi",), cdi_devices=devices)
    monkeypatch.setattr(engine, "info", lambda: info)
    with pytest.raises(EngineError, match="GPUs"):
        ensure_running(engine, made, RunOptions(gpus="2"))
    requests = [body["HostConfig"]["DeviceRequests"][0] for body in bodies]
    cdi, runtime = [(request["Driver"], request["DeviceIDs"], request["Count"]) for request in requests]
    assert (cdi, runtime) == (("cdi", ["nvidia.com/gpu=0", "nvidia.com/gpu=1"], 0), ("", [], 2))


def test_no_gpu_support_is_one_clear_error(made, call):
    done = call("run", made.recipe.name, "--gpus", "all", "--", "true")
    assert done.returncode == 3
    assert "cannot hand GPUs to containers" in done.stderr
    assert "NVIDIA Container Toolkit" in done.stderr


@pytest.mark.parametrize("driver", [False, True])
def test_a_recipe_that_may_have_a_gpu_goes_on_without(engine, recipe, monkeypatch, driver: bool, reported: list[str]):
    monkeypatch.setattr("reprokit.host.gpu.has_device_file", lambda: driver)
    name = ensure_running(engine, recipe("    requires: {gpu: optional}\n"))
    assert ("continuing without a GPU" in reported[-1]) == driver and any("without" in line for line in reported)
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


@pytest.mark.long
def test_a_device_arrives_through_the_hook(engine, made, short_path, monkeypatch, reported: list[str]):
    """On a second engine, whose PATH begins with the hook; it notes what was requested."""
    hook, requested = short_path / "bin" / "nvidia-container-runtime-hook", short_path / "bin" / "asked"
    hook.parent.mkdir()
    hook.write_text(HOOK)
    hook.chmod(0o755)
    monkeypatch.setenv("PATH", f"{hook.parent}:{os.environ['PATH']}")
    other = OtherEngine(short_path, short_path / "data")
    try:
        second = other.connect()
        second.api.load_image(engine.api.get_image(f"reprokit/{made.label}"))
        name = ensure_running(second, made, RunOptions(gpus="device=0,1", network="none"))
        assert reported[2:] == ["GPUs: device=0,1, through NVIDIA runtime"]
        assert requested.read_text() == "0,1"
        written = execute(second, name, ["sh", "-c", "test -c /dev/nvidia0 && echo x > /dev/nvidia0 && echo there"])
        assert written.stdout == "there\n", written
        ensure_running(second, made, RunOptions(gpus="none"))
        assert execute(second, name, ["ls", "/dev/nvidia0"]).exit_code != 0
        ensure_running(second, made, RunOptions(gpus="all"))
        assert requested.read_text() == "all"
    finally:
        other.stop()
