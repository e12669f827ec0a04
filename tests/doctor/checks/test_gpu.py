"""GPUs on the PCI bus against those of the driver and of nvidia-smi."""

from __future__ import annotations

import shutil

import pytest

from reprokit.doctor import gpus
from reprokit.doctor.checks import gpu, gpu_container, gpu_driver
from tests.support.examined import FakeMachine

FOUR = [f"0000:{bus}:00.0" for bus in ("17", "65", "b3", "ca")]


def row(index: int, address: str, name: str = "NVIDIA GeForce RTX 3090", driver: str = "535.54.03") -> str:
    return f"{index}, 0000{address.upper()}, {name}, {driver}, 8.6"


def smi(machine: FakeMachine, *rows: str, code: int = 0) -> None:
    lines = "\n".join(f"printf '%s\\n' '{line}'" for line in rows)
    machine.program("nvidia-smi", f"{lines}\nexit {code}")


@pytest.fixture
def four(machine: FakeMachine) -> FakeMachine:
    for address in FOUR:
        machine.gpu(address)
    machine.driver("535.54.03", *FOUR)
    return machine


def test_four_that_work(four: FakeMachine) -> None:
    smi(four, *(row(index, address) for index, address in enumerate(FOUR)))
    found = four.find(gpu, gpu_driver)
    assert {finding.severity for finding in found} == {"info"}
    assert sum("RTX 3090 (sm_86)" in finding.subjects[0] for finding in found) == 4
    assert any("CUDA 11.1 or later" in finding.reason for finding in found)


def test_none(machine: FakeMachine) -> None:
    machine.file("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n")
    (found,) = machine.find(gpu, gpu_driver)
    assert found.subjects == ("gpus=0",)


@pytest.mark.slow
def test_cards_fall_off_the_bus_as_in_the_notes(four: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """First nvidia-smi hangs, then it finds no devices, while the bus lists four."""
    four.program("nvidia-smi", "trap '' TERM\nsleep 9999")
    shutil.rmtree(four.root / "proc/driver/nvidia/gpus" / FOUR[2])
    with monkeypatch.context() as patience:
        patience.setattr(gpus, "SMI_S", 2)
        found = [finding for finding in four.find(gpu, gpu_container) if finding.severity != "info"]
    assert [finding.rule for finding in found] == ["gpu.hangs", "gpu_container"]
    assert "nvidia-smi does not answer" in found[0].reason
    assert f"4 NVIDIA GPUs, of which the driver does not have {FOUR[2]}:" in found[0].reason
    assert "reboot" in found[0].remedy

    smi(four, "No devices were found", code=6)
    four.program("dmesg", "echo '[1.0] NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.'")
    (found,) = [finding for finding in four.find(gpu) if finding.severity == "error"]
    assert found.rule == "gpu.lost" and "No devices were found" in found.reason
    assert "4 NVIDIA GPUs" in found.reason and "Xid" in found.reason


def test_one_of_four_is_named(four: FakeMachine) -> None:
    smi(four, *(row(index, address) for index, address in enumerate(FOUR[:3])))
    (found,) = [finding for finding in four.find(gpu) if finding.severity != "info"]
    assert FOUR[3] in found.reason and FOUR[0] not in found.reason
    # A login in a job of Slurm, or in a container, may have only some.
    assert found.severity == "warning" and "this login has only some" in found.reason
    four.program("dmesg", "echo '[1.0] NVRM: Xid (PCI:0000:ca:00): 79, GPU has fallen off the bus.'")
    (found,) = [finding for finding in four.find(gpu) if finding.severity != "info"]
    assert found.severity == "error" and FOUR[3] in found.reason and "Xid" in found.reason


def test_a_card_whose_configuration_reads_as_ones(machine: FakeMachine) -> None:
    machine.gpu(FOUR[0], dead=True)
    machine.gpu(FOUR[1])
    machine.driver("535.54.03", FOUR[1])
    smi(machine, row(0, FOUR[1]))
    (found,) = [finding for finding in machine.find(gpu) if finding.severity == "error"]
    assert found.rule == "gpu.lost" and FOUR[0] in found.reason and FOUR[1] not in found.reason


def test_unlike_gpus_are_each_named(machine: FakeMachine) -> None:
    for address in FOUR[:2]:
        machine.gpu(address)
    machine.driver("535.54.03", *FOUR[:2])
    smi(machine, row(0, FOUR[0]), row(1, FOUR[1], "NVIDIA A100-SXM4-80GB"))
    found = machine.find(gpu)
    assert any(f.rule == "gpu.unlike" and "A100" in f.subjects[0] and "3090" in f.subjects[0] for f in found)


@pytest.mark.parametrize(
    "name", ["\x1b]0;owned\x07RTX", "\u202e0903 XTR", "x" * 300, "%s%n", "`id`", "$(id)", "reprokit:module 1.2"]
)
def test_hostile_names_of_gpus_are_only_shown(machine: FakeMachine, name: str) -> None:
    machine.gpu(FOUR[0])
    machine.driver("535.54.03", FOUR[0])
    smi(machine, row(0, FOUR[0], name))
    found = machine.find(gpu, gpu_driver)
    assert {finding.severity for finding in found} == {"info"}
    assert all(len(subject) < 600 for finding in found for subject in finding.subjects)
    assert any(finding.subjects == ("driver=535.54.03",) for finding in found)
