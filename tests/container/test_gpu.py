from __future__ import annotations

import json

import pytest

from reprokit.container import gpu
from reprokit.container.fit import require_fit
from reprokit.container.gpu_host import Gpu, cdi_devices, host_gpus
from reprokit.errors import EngineError, UsageError

CDI = gpu.GpuSupport(("nvidia.com/gpu=0", "nvidia.com/gpu=1", "nvidia.com/gpu=GPU-abc", "nvidia.com/gpu=all"))


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("all", gpu.ALL),
        ("none", gpu.NONE),
        ("0", gpu.NONE),
        ("2", gpu.GpuRequest(2)),
        ("device=0,1", gpu.GpuRequest(devices=("0", "1"))),
        ("device=GPU-1a-2b", gpu.GpuRequest(devices=("GPU-1a-2b",))),
        ("device=MIG-1a", gpu.GpuRequest(devices=("MIG-1a",))),
        ('"device=0,1"', gpu.GpuRequest(devices=("0", "1"))),
    ],
)
def test_what_users_write(text, request_):
    assert gpu.parse_gpus(text) == request_
    assert gpu.parse_gpus(str(request_)) == request_


@pytest.mark.parametrize("text", ["", "any", "-1", "1.5", "device=", "device=0,", "device=0,0", "0,1", "device=a b"])
def test_what_is_no_choice(text):
    with pytest.raises(UsageError):
        gpu.parse_gpus(text)


@pytest.mark.parametrize(
    ("info", "found"),
    [
        ({}, ()),
        ({"CDISpecDirs": []}, ()),
        ({"CDISpecDirs": None, "DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}]}, ()),
        ({"CDISpecDirs": ["/etc/cdi"]}, ("nvidia.com/gpu=7",)),
        ({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]},
         ("nvidia.com/gpu=0",)),
        ({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": [{"Source": "cdi", "ID": "other.com/x=0"}]}, ()),
        ({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": []}, ()),
    ],
)  # fmt: skip
def test_cdi_counts_only_where_the_engine_has_it_on(info, found):
    assert gpu.support_of(info, ("nvidia.com/gpu=7", "vendor.com/net=1")).cdi == found


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


@pytest.mark.parametrize("text", ["3", "device=4"])
def test_cdi_refuses_what_it_does_not_know(text):
    with pytest.raises(UsageError):
        gpu.ladder(gpu.parse_gpus(text), CDI)


def test_the_runtime_is_asked_by_capability():
    for text, count, ids in (("all", -1, []), ("2", 2, []), ("device=0,1", 0, ["0", "1"])):
        (rung,) = gpu.ladder(gpu.parse_gpus(text), gpu.GpuSupport())
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


def test_cdi_files_in_both_formats_and_broken_ones(tmp_path):
    (tmp_path / "a.yaml").write_text("kind: nvidia.com/gpu\ndevices: [{name: '0'}, {name: all}]\n")
    (tmp_path / "b.json").write_text(json.dumps({"kind": "vendor.com/net", "devices": [{"name": "eth"}]}))
    (tmp_path / "c.yaml").write_text("kind: [\n")
    (tmp_path / "d.txt").write_text("kind: x")
    (tmp_path / "e.json").write_text("[]")
    devices = cdi_devices([str(tmp_path), "/nonexistent"])
    assert devices == ("nvidia.com/gpu=0", "nvidia.com/gpu=all", "vendor.com/net=eth")


LABELS = {"reprokit.min-driver": "450.80.02", "reprokit.compute-capabilities": "7.0,8.0"}


def test_driver_and_capability_are_compared_with_the_image():
    assert require_fit(LABELS, [Gpu("A100", "450.80.02", "8.0")]) == ""
    assert "8.6" in require_fit(LABELS, [Gpu("RTX 3090", "535.1", "8.6")])
    with pytest.raises(EngineError, match=r"450\.51"):
        require_fit(LABELS, [Gpu("A100", "450.51", "8.0")])
    assert require_fit({}, [Gpu("A100", "1.0", "8.0")]) == ""
    assert require_fit({"reprokit.min-driver": "?"}, [Gpu("A100", "[N/A]", "")]) == ""


def test_nvidia_smi_is_bounded_and_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("reprokit.container.gpu_host._SMI_SECONDS", 0.2)
    smi = tmp_path / "smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA A100, 535.104.05, 8.0'\n")
    smi.chmod(0o755)
    assert host_gpus(str(smi)) == [Gpu("NVIDIA A100", "535.104.05", "8.0")]
    monkeypatch.setattr("reprokit.container.gpu_host.driver_version", lambda command: None)
    smi.write_text("#!/bin/sh\nsleep 5\n")
    assert host_gpus(str(smi)) == []
    assert host_gpus(str(tmp_path / "missing")) == []
