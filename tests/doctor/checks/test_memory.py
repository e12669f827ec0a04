"""Memory, swap and shared memory, also for a recipe."""

from __future__ import annotations

from reprokit.doctor.checks import memory, recipe
from reprokit.recipe.find import Target
from tests.support.examined import FakeMachine, target


def meminfo(machine: FakeMachine, total: int, free: int, swap: int) -> None:
    lines = {"MemTotal": total, "MemFree": 1, "MemAvailable": free, "SwapTotal": swap, "SwapFree": swap}
    machine.file("proc/meminfo", "".join(f"{name}:   {gib << 20} kB\n" for name, gib in lines.items()))


def of(**requires: object) -> Target:
    return target({"base": "debian:12", "shm": "40GiB", "requires": requires})


def test_much_and_little(machine: FakeMachine) -> None:
    meminfo(machine, 32, 30, 0)
    assert machine.rules(memory) == set()
    meminfo(machine, 4, 3, 0)
    assert machine.rules(memory) == {"memory.swap"}
    meminfo(machine, 4, 3, 8)
    assert machine.rules(memory) == set()


def test_less_than_a_recipe_needs_is_found_in_the_words_of_check(machine: FakeMachine) -> None:
    meminfo(machine, 32, 30, 0)
    machine.target = of(memory="64GiB")
    (found,) = [finding for finding in machine.find(recipe) if finding.severity == "error"]
    assert found.rule == "memory" and found.subjects == ("requires.memory=64.0 GiB", "host.memory=32.0 GiB")
    assert found.reason == "not enough memory for the paper's runs: the kernel would kill them"


def test_memory_that_others_use_and_shared_memory_beyond_it(machine: FakeMachine) -> None:
    meminfo(machine, 32, 10, 8)
    machine.target = of(memory="16GiB")
    assert machine.rules(memory) == {"memory.available", "memory.shm"}


def test_a_limit_of_the_cgroup_counts(machine: FakeMachine) -> None:
    meminfo(machine, 32, 30, 0)
    machine.file("sys/fs/cgroup/memory.max", f"{2 << 30}\n")
    assert machine.rules(memory) == {"memory.swap"}
