"""The NVIDIA driver: loaded, alike in all its parts, with its device files."""

from __future__ import annotations

import pytest

from reprokit.doctor.checks import gpu_driver
from tests.support.examined import FakeMachine

CARD = "0000:65:00.0"


def test_no_driver_is_loaded(machine: FakeMachine) -> None:
    machine.gpu(CARD, driver="")
    assert machine.rules(gpu_driver) == {"gpu_driver.missing"}


@pytest.mark.parametrize("other", ["nouveau", "vfio-pci"])
def test_a_card_of_another_driver(machine: FakeMachine, other: str) -> None:
    machine.gpu(CARD, driver=other)
    found = machine.find(gpu_driver)
    assert found[0].rule == "gpu_driver.foreign" and other in found[0].reason and CARD in found[0].reason


def test_libraries_of_another_version_than_the_loaded_module(machine: FakeMachine) -> None:
    machine.gpu(CARD)
    machine.driver("535.54.03", CARD)
    machine.program("nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    machine.file("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.14")
    (machine.root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.54.03").unlink()
    (found,) = [finding for finding in machine.find(gpu_driver) if finding.severity == "error"]
    assert found.rule == "gpu_driver.mismatch" and "reboot" in found.remedy
    assert "535.54.03" in found.reason and "550.54.14" in found.reason


def test_missing_device_files_can_be_made(machine: FakeMachine) -> None:
    machine.gpu(CARD)
    machine.driver("535.54.03", CARD)
    machine.program("nvidia-smi", f"echo '0, 0000{CARD}, NVIDIA A100, 535.54.03, 8.0'")
    assert machine.rules(gpu_driver) == set()
    (machine.root / "dev/nvidia-uvm").unlink()
    assert machine.rules(gpu_driver) == {"gpu_driver.uvm"}
    for name in ("nvidiactl", "nvidia0"):
        (machine.root / "dev" / name).unlink()
    (found,) = [finding for finding in machine.find(gpu_driver) if finding.severity == "error"]
    assert found.fix == "sudo nvidia-modprobe -u -c=0"
