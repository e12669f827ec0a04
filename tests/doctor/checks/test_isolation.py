"""Cgroups, user namespaces, seccomp."""

from __future__ import annotations

from reprokit.doctor.checks import isolation
from tests.support.examined import INFO, FakeMachine, PlainEngine


def test_user_namespaces_of_kernel_and_engine(machine: FakeMachine) -> None:
    machine.engine = PlainEngine({**INFO, "SecurityOptions": ["name=seccomp,profile=builtin", "name=userns"]})
    machine.program("unshare", "exit 0")
    shown = {finding.subjects[0]: finding.reason for finding in machine.find(isolation)}
    assert "host.user_namespaces=yes" in shown and "shifts user ids" in shown["engine.cgroup=2"]
    machine.program("unshare", "exit 1")
    assert "host.user_namespaces=no" in {finding.subjects[0] for finding in machine.find(isolation)}
    machine.program("unshare", "exit 0")
    machine.file("proc/sys/kernel/unprivileged_userns_clone", "0\n")
    assert "host.user_namespaces=no" in {finding.subjects[0] for finding in machine.find(isolation)}


def test_an_engine_that_cannot_limit_containers(machine: FakeMachine) -> None:
    machine.engine = PlainEngine({**INFO, "SecurityOptions": None, "MemoryLimit": False})
    assert machine.rules(isolation) == {"isolation.memory", "isolation.seccomp"}
