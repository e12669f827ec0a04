"""Processors."""

from __future__ import annotations

from reprokit.doctor.checks import cpu
from tests.support.examined import FakeMachine


def test_a_clock_that_follows_the_load_and_a_busy_machine(machine: FakeMachine) -> None:
    machine.program("nproc", "echo 4")
    machine.file("proc/loadavg", "0.10 0.2 0.3 1/200 99\n")
    for number, governor in enumerate(["performance", "powersave"]):
        machine.file(f"sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor", f"{governor}\n")
    assert machine.rules(cpu) == {"cpu.governor"}
    machine.file("proc/loadavg", "9.50 0.2 0.3 1/200 99\n")
    assert machine.rules(cpu) == {"cpu.governor", "cpu.load"}


def test_memory_nodes_and_the_gpus_near_them(machine: FakeMachine) -> None:
    machine.file("sys/devices/system/node/online", "0-1\n")
    machine.file("sys/bus/pci/drivers/nvidia/0000:65:00.0/numa_node", "1\n")
    assert any("GPU 0000:65:00.0 at node 1" in finding.reason for finding in machine.find(cpu))
