"""GPUs of this machine: nvidia-smi, the loaded driver, and the files of CDI."""

from __future__ import annotations

import json
import stat
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


def test_nvidia_smi_is_bounded_and_may_be_missing(tmp_path, monkeypatch):
    smi = tmp_path / "smi"
    monkeypatch.setattr("reprokit.host.gpu._SMI_SECONDS", 60)
    smi.write_text("#!/bin/sh\necho 'NVIDIA A100, 535.104.05, 8.0'\n")
    smi.chmod(0o755)
    assert gpu.gpus(str(smi)) == [GpuDevice("NVIDIA A100", "535.104.05", "8.0")]
    monkeypatch.setattr("reprokit.host.gpu.driver_version", lambda command: None)
    monkeypatch.setattr("reprokit.host.gpu._SMI_SECONDS", 0.2)
    smi.write_text("#!/bin/sh\nsleep 9999\n")
    assert gpu.gpus(str(smi)) == []
    assert gpu.gpus(str(tmp_path / "missing")) == []


def _command(folder: Path, body: str) -> str:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_driver_of_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_SMI_SECONDS", 60)
    command = _command(tmp_path, "echo 535.104.05; echo 535.104.05")
    assert gpu.driver_version(command, module=tmp_path / "none") == "535.104.05"


def test_driver_of_the_loaded_module(tmp_path: Path) -> None:
    module = tmp_path / "version"
    module.write_text("550.54.14\n", encoding="ascii")
    assert gpu.driver_version("no such command", module=module) == "550.54.14"


def test_no_driver(tmp_path: Path) -> None:
    assert gpu.driver_version("no such command", module=tmp_path / "none") is None
    assert gpu.driver_version(_command(tmp_path, "exit 9"), module=tmp_path / "none") is None


def test_a_lost_card_does_not_hold_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_SMI_SECONDS", 0.2)
    assert gpu.driver_version(_command(tmp_path, "exec sleep 9999"), module=tmp_path / "none") is None
