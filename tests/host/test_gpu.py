"""GPUs of this machine: nvidia-smi, the loaded driver, and the files of CDI."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprokit.host import gpu
from reprokit.host.gpu import GpuDevice, cdi_devices


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
    assert gpu.engine_devices(info, lambda folders: ("nvidia.com/gpu=7", "vendor.com/net=1")) == found


def test_cdi_files_in_both_formats_and_broken_ones(tmp_path):
    (tmp_path / "a.yaml").write_text("kind: nvidia.com/gpu\ndevices: [{name: '0'}, {name: all}]\n")
    (tmp_path / "b.json").write_text(json.dumps({"kind": "vendor.com/net", "devices": [{"name": "eth"}]}))
    (tmp_path / "c.yaml").write_text("kind: [\n")
    (tmp_path / "d.txt").write_text("kind: x")
    (tmp_path / "e.json").write_text("[]")
    devices = cdi_devices([str(tmp_path), "/nonexistent"])
    assert devices == ("nvidia.com/gpu=0", "nvidia.com/gpu=all", "vendor.com/net=eth")


@pytest.mark.parametrize("text", ["[" * 3000, "kind: &a x\ndevices: [{name: *a}]\n"], ids=["deep", "alias"])
def test_cdi_files_of_a_node_are_strict_yaml(text):
    with pytest.raises(ValueError):
        gpu.devices_of("x.yaml", text)


def test_nvidia_smi_is_bounded_and_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    smi, module = tmp_path / "nvidia-smi", tmp_path / "version"
    command = str(smi)
    monkeypatch.setattr(gpu, "_SMI_SECONDS", 60)
    smi.write_text("#!/bin/sh\necho 'NVIDIA A100, 535.104.05, 8.0'\n")
    smi.chmod(0o755)
    assert gpu.gpus(command) == [GpuDevice("NVIDIA A100", "535.104.05", "8.0")]
    smi.write_text("#!/bin/sh\necho 535.104.05; echo 535.104.05\n")
    assert gpu.driver_version(command, module=module) == "535.104.05"
    smi.write_text("#!/bin/sh\nexit 9\n")
    assert gpu.driver_version(command, module=module) is None
    assert gpu.driver_version("no such command", module=module) is None
    smi.write_text("#!/bin/sh\nexec sleep 9999\n")  # a lost card
    with monkeypatch.context() as patched:
        patched.setattr(gpu, "_SMI_SECONDS", 0.2)
        assert gpu.driver_version(command, module=module) is None
        patched.setattr(gpu, "driver_version", lambda command: None)
        assert gpu.gpus(command) == gpu.gpus(str(tmp_path / "missing")) == []
    module.write_text("550.54.14\n")
    assert gpu.driver_version("no such command", module=module) == "550.54.14"
