"""Logins in containers, virtual machines and WSL."""

from __future__ import annotations

from reprokit.doctor.checks import nesting
from tests.support.examined import INFO, FakeMachine, PlainEngine

ID = "9f" * 32


def test_a_login_in_a_container_of_its_own_engine(machine: FakeMachine) -> None:
    mount = f"511 500 8:1 /docker/containers/{ID}/hostname /etc/hostname rw - ext4 /dev/sda1 rw\n"
    machine.file("proc/self/mountinfo", mount)
    machine.engine = PlainEngine(INFO, inside=ID)
    (found,) = machine.find(nesting)
    assert found.rule == "nesting.engine" and found.severity == "warning"
    machine.engine = PlainEngine(INFO)
    assert machine.rules(nesting) == set()
    machine.engine = None
    assert any("container" in finding.subjects[0] for finding in machine.find(nesting))


def test_marks_alone_are_reported(machine: FakeMachine) -> None:
    assert machine.find(nesting) == []
    machine.file("run/.containerenv")
    (found,) = machine.find(nesting)
    assert found.severity == "info" and found.subjects == ("host.inside=container",)


def test_wsl_and_virtual_machines(machine: FakeMachine) -> None:
    machine.file("proc/cpuinfo", "flags : fpu hypervisor lm\n")
    machine.file("sys/class/dmi/id/sys_vendor", "QEMU\n")
    (found,) = machine.find(nesting)
    assert (found.subjects, found.reason) == (("host.inside=virtual machine",), "QEMU")
    machine.file("proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2\n")
    (found,) = machine.find(nesting)
    assert found.subjects == ("host.inside=WSL",)
