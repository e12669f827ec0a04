"""GPUs of this machine: nvidia-smi, the loaded driver, and the files of CDI."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from reprokit.host import gpu
from reprokit.host.gpu import Gpu, cdi_devices
from tests.support.nvidia_smi import write_smi


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


CARD = {"index": "0", "name": "NVIDIA A100", "driver_version": "535.104.05"}


def test_nvidia_smi_is_bounded_and_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ROOT", str(tmp_path))
    smi = tmp_path / "nvidia-smi"
    write_smi(smi, {**CARD, "compute_cap": "8.0"})
    assert gpu.gpus(60) == [Gpu("NVIDIA A100", "535.104.05", "8.0", "0")]
    write_smi(smi, CARD)  # an old driver
    assert gpu.gpus(60) == [Gpu("NVIDIA A100", "535.104.05", index="0")]
    smi.write_text("#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'; exit 18\n")
    assert gpu.gpus(60) == []
    module = tmp_path / "sys/module/nvidia/version"
    module.parent.mkdir(parents=True)
    module.write_text("550.54.14\n")
    assert gpu.gpus(60) == [Gpu(driver="550.54.14")]
    smi.write_text("#!/bin/sh\ntrap '' TERM\nsleep 9999\n")  # a lost card
    assert gpu.gpus(0.3) == [Gpu(driver="550.54.14")]
    smi.unlink()
    assert gpu.gpus(60) == [Gpu(driver="550.54.14")]


def answer(*rows: str, fields: str = "index,name", listed: tuple[str, ...] = ()) -> gpu.SmiAnswer:
    return gpu.parse({"smi": ["answers"], "smi_fields": [fields], "smi_line": [*rows], "smi_listed": [*listed]})


def test_what_an_h200_reports():
    fields = (
        "mig.mode.current,index,pci.bus_id,name,driver_version,compute_cap,clocks.sm,clocks.max.sm,clocks.max.memory,"
        "clocks.applications.graphics,temperature.gpu,clocks_event_reasons.active,persistence_mode,ecc.mode.current,"
        "ecc.errors.uncorrected.volatile.total"
    )
    row = (
        "Disabled, 0, 00000000:CA:00.0, NVIDIA H200, 570.86.15, 9.0, 345, 1980, 3201, 1980, 31, 0x0000000000000024, "
        "Enabled, Enabled, 0"
    )
    assert answer(row, fields=fields).gpus == (
        Gpu(
            "NVIDIA H200", "570.86.15", "9.0", "0", "0000:ca:00.0", clock=345, max_clock=1980, max_memory_clock=3201,
            applications_clock=1980, temperature=31, slowdowns=("power limit", "heat"), mig="Disabled",
            persistence="Enabled", ecc="Enabled", ecc_errors=0,
        ),
    )  # fmt: skip


def test_slices_and_unknown_values():
    listed = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)",
        "  MIG 3g.20gb     Device  0: (UUID: MIG-7089d0f3)",
        "  MIG 3g.20gb     Device  1: (UUID: MIG-56c30729)",
        "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-c9e2d8a1)",
    )
    first, second = answer("0, A", "1, A", listed=listed).gpus
    assert (first.slices, second.slices) == (("3g.20gb", "3g.20gb"), ())
    (only,) = answer("0, A, [N/A], 0xzz", fields="index,name,temperature.gpu,clocks_throttle_reasons.active").gpus
    assert (only.temperature, only.slowdowns) == (None, ())


def test_a_broken_driver_prints_a_sentence():
    broken = answer("No devices were found")
    assert (broken.status, broken.gpus, broken.error) == ("fails", (), "No devices were found")
    assert gpu.parse({"smi": ["\x1b[2J"], "module": ["no version"]}) == gpu.SmiAnswer()
