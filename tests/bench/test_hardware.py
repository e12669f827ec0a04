"""What the probes read of a machine with GPUs, a broken driver or none, and the reasons to doubt what it measures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.bench.hardware import Hardware, doubts, probe, probe_state, read, samples_of, state_of
from reprokit.results.record import MachineState
from tests.support.nvidia_smi import write_smi


def reported(text: str) -> str:
    """The output of a script that reports these lines of `NAME VALUE`."""
    return "".join(f"reprokit:{line}\n" for line in text.splitlines())


def gpu_rows(fields: str, *rows: str) -> str:
    return "\n".join(["smi answers", f"smi_fields index,name,{fields}", *(f"smi_line {row}" for row in rows)])


@pytest.mark.slow
def test_this_machine_has_a_cpu_and_a_load(here):
    machine = probe(here)
    assert machine.cpu and machine.threads == len(os.sched_getaffinity(0))
    device = Path("/dev/nvidia0").exists()
    assert (machine.gpu, machine.driver, machine.has_gpu) == ("unknown GPU" * device, "", device)
    assert probe_state(here).load is not None


def card(index: int, name: str, driver: str, *clocks: str) -> dict[str, str]:
    """Its maxima for SMs and memory, and the clock of applications."""
    fields = ("clocks.max.sm", "clocks.max.memory", "clocks.applications.graphics")
    known = dict(zip(fields, clocks, strict=False))
    return {"index": str(index), "name": name, "driver_version": driver, **known}


def test_gpus_are_counted_and_keep_their_clocks(here, tmp_path):
    smi = tmp_path / "bin/nvidia-smi"
    three = [card(n, "RTX 3090", "470.57.02", clock, "9751", "[N/A]") for n, clock in enumerate(("2100", "1980"))]
    write_smi(smi, *three, card(2, "Tesla T4", "470.57.02", "1590", "5001", "1590"))
    machine = probe(here)
    assert (machine.gpu, machine.driver, machine.has_gpu) == ("2x RTX 3090, Tesla T4", "470.57.02", True)
    assert {k: v for k, v in machine.clocks.items() if k.startswith("gpu")} == {
        "gpu_max_sm": [2100, 1980, 1590],
        "gpu_max_memory": [9751, 9751, 5001],
    }
    write_smi(smi, card(0, "NVIDIA H200", "570.86.15", "1980", "3201", "1980"))
    clocks = probe(here).clocks  # those of one GPU are plain numbers
    assert (clocks["gpu_max_sm"], clocks["gpu_max_memory"], clocks["gpu_applications"]) == (1980, 3201, 1980)


def test_drivers_without_these_fields_without_devices_and_with_slices(here, tmp_path):
    smi = tmp_path / "bin/nvidia-smi"
    write_smi(smi, card(0, "Tesla K80", "460.32.03"))
    machine = probe(here)
    assert (machine.gpu, machine.driver, machine.has_gpu) == ("Tesla K80", "460.32.03", True)
    smi.write_text("#!/bin/sh\necho 'No devices were found'\n")
    assert (probe(here).gpu, probe(here).driver) == ("", "")
    slices = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)
  MIG 3g.20gb     Device  0: (UUID: MIG-7089d0f3)
  MIG 3g.20gb     Device  1: (UUID: MIG-56c30729)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-c9e2d8a1)"""
    cards = [card(number, "NVIDIA A100-SXM4-40GB", "535.54") for number in range(2)]
    modes = [{**each, "mig.mode.current": mode} for each, mode in zip(cards, ("Enabled", "Disabled"), strict=True)]
    write_smi(smi, *modes, listed=slices)
    assert probe(here).gpu == "2x NVIDIA A100-SXM4-40GB MIG 3g.20gb, NVIDIA A100-SXM4-40GB"


def test_an_answer_is_read_as_far_as_it_goes():
    text = reported("threads 64\ncpu \nmachine aarch64\ngovernor performance\ncpu_khz 2600000\ncache 1 Data 32K \n")
    machine = read(text)
    assert (machine.cpu, machine.threads, machine.machine.caches) == ("aarch64", 64, {"L1d": 32 << 10})
    assert machine.clocks == {"cpu_max": 2600, "cpu_governor": "performance"}
    assert read("") == Hardware(cpu="", threads=1)
    device = "threads 2\ncpu x\ndevice /dev/nvidia0\n"
    machine = read(reported(device))
    assert (machine.has_gpu, machine.gpu, len(machine.doubts)) == (True, "unknown GPU", 1)
    assert not read(reported(device + gpu_rows("driver_version", "0, Tesla T4, 470.57"))).doubts


STATE = "clocks.sm,temperature.gpu,clocks_event_reasons.active"


def test_a_state_is_read_as_far_as_it_goes():
    text = reported(
        "stat cpu 100 0 100 800 0 0 0 0 0 0\nstat cpu 150 0 100 850 0 0 0 0 0 0\nprocessors 8\nkhz 2800000\n"
        "heat 61000\nheat 70500\nthrottle 3\nthrottle 4\n"
        + gpu_rows(STATE, "0, A, 1980, 45, 0x0000000000000024", "1, A, 300, 30, 0x0")
    )
    assert state_of(text) == MachineState(4.0, 2800, 70.5, 7, (1980, 300), (45, 30), ("power limit, heat", ""))
    odd = ["", "stat cpu\nstat cpu\nprocessors x", "heat \nthrottle -\nsmi_line No devices were found", "khz 1e9"]
    assert all(state_of(reported(text)) == MachineState() for text in [*odd, "khz " + "9" * 5000])
    # An unknown clock is not 0, and GPUs keep their numbers.
    rows = ("0, A, [N/A], 45, 0x4", "1, A, 1980, 50, [N/A]", "2, A, 1500, [N/A], 0x20")
    gpus = state_of(reported(gpu_rows(STATE, *rows)))
    assert (gpus.gpu_clock, gpus.gpu_temperature) == ((None, 1980, 1500), (45, 50, None))
    assert gpus.gpu_slowdown == ("power limit", "", "heat")


@pytest.mark.slow
def test_long_numbers_and_many_gpus_are_not_read():
    nines = "9" * 5000
    clocks = "clocks.max.sm,clocks.max.memory,clocks.applications.graphics"
    rows = gpu_rows(clocks, f"0, a, {nines}, {nines}, {nines}")
    assert read(reported(f"cpu x\ncpu_khz {nines}\n{rows}")).clocks == {}
    many = gpu_rows("driver_version", *(f"0, g{number}, 1" for number in range(100_000)))
    assert len(read(reported(many)).gpu) < 1 << 16
    assert state_of(reported(gpu_rows(STATE, f"0, a, {nines}, {nines}, 0x0"))).gpu_clock == (None,)
    assert state_of(reported(f"stat cpu {' '.join([nines] * 8)}\n" * 2 + "processors 2")).load is None
    assert len(state_of(reported(gpu_rows(STATE, *["0, a, 1, 1, 0x4"] * 100_000))).gpu_clock) < 10_000
    lines = [f"reprokit-gpu: 1 {gpu}, {bits:#x}\n" for gpu in range(1_000) for bits in range(0, 256, 4)]
    assert {gpu for gpu, _ in samples_of("".join(lines))[1]} == set(range(100))


def test_load_heat_and_power_are_doubts():
    quiet, busy = MachineState(load=0.2, throttles=3, gpu_slowdown=("",)), MachineState(load=1.5)
    hot = MachineState(load=0.2, throttles=5, gpu_slowdown=("", "heat"))
    assert list(doubts(2, quiet, quiet)) == list(doubts(64, busy, quiet)) == []
    assert list(doubts(2, busy, quiet)) == ["other programs kept 1.5 processors busy before the benchmark"]
    assert list(doubts(2, quiet, hot)) == [
        "GPU 1 was slowed down after the benchmark: heat", "the CPU was slowed down by heat during the benchmark",
    ]  # fmt: skip
    assert list(doubts(2, hot, quiet)) == ["GPU 1 was slowed down before the benchmark: heat"]


def test_samples_are_counted_by_gpu_and_reason():
    counted = "".join(f"reprokit-gpu: {line}\n" for line in ("      3 0, 0x0", "      2 0, 0x4", "      1 1, 0x48"))
    errors, samples = samples_of("oops\n" + counted)
    assert errors == "oops\n" and samples_of("100 %" + counted) == ("100 %", samples)
    assert list(doubts(2, MachineState(), MachineState(), samples)) == [
        "GPU 0 was slowed down in 2 of 5 samples: power limit",
        "GPU 1 was slowed down in 1 of 1 samples: hardware slowdown, heat",
    ]
