"""The NVIDIA Container Toolkit and CDI."""

from __future__ import annotations

from reprokit.doctor.checks import gpu_toolkit
from tests.support.examined import INFO, FakeMachine, PlainEngine


def test_without_a_gpu_nothing_is_missing(machine: FakeMachine) -> None:
    assert machine.find(gpu_toolkit) == []


def test_a_toolkit_that_is_not_installed(machine: FakeMachine) -> None:
    machine.working_gpu()
    (found,) = [finding for finding in machine.find(gpu_toolkit) if finding.severity == "error"]
    assert found.rule == "gpu_toolkit.missing" and "nvidia-ctk runtime configure" in found.remedy


def test_cdi_files_from_elsewhere_need_no_toolkit(machine: FakeMachine) -> None:
    machine.working_gpu()
    machine.engine = PlainEngine(INFO, cdi=("nvidia.com/gpu=0",))
    assert [finding.severity for finding in machine.find(gpu_toolkit)] == ["info", "info"]


def test_cdi_files_of_an_earlier_driver_can_be_written_anew(machine: FakeMachine) -> None:
    machine.working_gpu()
    machine.program("nvidia-ctk", "echo 'NVIDIA Container Toolkit CLI version 1.17.4'")
    machine.engine = PlainEngine(INFO, cdi=("nvidia.com/gpu=0",))
    library = "hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so."
    machine.file("etc/cdi/nvidia.yaml", f"{library}550.54.14\n")
    assert machine.rules(gpu_toolkit) == set()
    machine.file("etc/cdi/nvidia.yaml", f"{library}535.54.03\n{library}1\n")
    (found,) = [finding for finding in machine.find(gpu_toolkit) if finding.severity == "error"]
    assert "535.54.03" in found.reason and found.fix.startswith("sudo nvidia-ctk cdi generate")


def test_an_engine_with_cdi_and_no_devices(machine: FakeMachine) -> None:
    machine.working_gpu()
    machine.program("nvidia-ctk", "echo 'NVIDIA Container Toolkit CLI version 1.17.4'")
    machine.engine = PlainEngine({**INFO, "CDISpecDirs": ["/etc/cdi"]})
    assert machine.rules(gpu_toolkit) == {"gpu_toolkit.cdi"}
