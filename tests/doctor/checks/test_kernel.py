"""The kernel."""

from __future__ import annotations

from reprokit.doctor.checks import kernel
from tests.support.examined import FakeMachine


def test_an_old_kernel_without_overlay(machine: FakeMachine) -> None:
    machine.program("modinfo", "exit 1")
    machine.file("proc/filesystems", "nodev\tsysfs\n\text4\n")
    machine.program("uname", "echo 3.10.0-1160.el7")
    assert machine.rules(kernel) == {"kernel.version", "kernel.overlay"}
    machine.file("proc/filesystems", "nodev\tsysfs\nnodev\toverlay\n")
    machine.program("uname", "echo 6.1.0-18-amd64")
    assert machine.rules(kernel) == set()
