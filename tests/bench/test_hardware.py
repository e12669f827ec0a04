"""What the probes read of a machine with GPUs, a broken driver or none, and the reasons to doubt what it measures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.bench.condition import doubts, probe_state, samples_of, state_of
from reprokit.bench.hardware import Hardware, probe, read
from reprokit.results.record import MachineState


def fake_smi(tmp_path, *rows: str, before: str = "") -> None:
    script = tmp_path / "bin" / "nvidia-smi"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!/bin/sh\n{before}\n" + "".join(f"echo '{row}'\n" for row in rows))
    script.chmod(0o755)


@pytest.mark.slow
def test_this_machine_has_a_cpu_and_a_load(here):
    machine = probe(here)
    assert machine.cpu and machine.threads == len(os.sched_getaffinity(0))
    device = Path("/dev/nvidia0").exists()
    assert (machine.gpu, machine.driver, machine.has_gpu) == ("unknown GPU" * device, "", device)
    assert probe_state(here).load is not None


def test_gpus_are_counted_and_keep_their_clocks(here, tmp_path):
    rows = [f"NVIDIA GeForce RTX 3090, 470.57.02, {clock}, 9751, [N/A]" for clock in (2100, 1980)]
    fake_smi(tmp_path, *rows, "Tesla T4, 470.57.02, 1590, 5001, 1590")
    machine = probe(here)
    assert (machine.gpu, machine.driver, machine.has_gpu) == (
        "2x NVIDIA GeForce RTX 3090, Tesla T4",
        "470.57.02",
        True,
    )
    assert {k: v for k, v in machine.clocks.items() if k.startswith("gpu")} == {
        "gpu_max_sm": [2100, 1980, 1590],
        "gpu_max_memory": [9751, 9751, 5001],
    }
    fake_smi(tmp_path, "NVIDIA H200, 570.86.15, 1980, 3201, 1980")
    clocks = probe(here).clocks  # those of one GPU are plain numbers
    assert (clocks["gpu_max_sm"], clocks["gpu_max_memory"], clocks["gpu_applications"]) == (1980, 3201, 1980)


def test_drivers_without_these_fields_without_devices_and_with_slices(here, tmp_path):
    refuse = 'case $* in *clocks*) echo "Field \\"clocks.max.sm\\" is not a valid field to query."; exit 2;; esac'
    fake_smi(tmp_path, "Tesla K80, 460.32.03", before=refuse)
    machine = probe(here)
    assert (machine.gpu, machine.driver, machine.has_gpu) == ("Tesla K80", "460.32.03", True)
    fake_smi(tmp_path, "No devices were found")
    assert (probe(here).gpu, probe(here).driver) == ("", "")
    slices = """echo 'GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)'
        echo '  MIG 3g.20gb     Device  0: (UUID: MIG-7089d0f3)'
        echo '  MIG 3g.20gb     Device  1: (UUID: MIG-56c30729)'
        echo 'GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-c9e2d8a1)'; exit"""
    row = "NVIDIA A100-SXM4-40GB, 535.54, 1410, 1215, 1095"
    fake_smi(tmp_path, row, row, before=f"case $* in -L) {slices};; esac")
    assert probe(here).gpu == "2x NVIDIA A100-SXM4-40GB MIG 3g.20gb, NVIDIA A100-SXM4-40GB"


def test_an_answer_is_read_as_far_as_it_goes():
    text = "threads=64\ncpu=\nmachine=aarch64\ngovernor=performance\ncpu_khz=2600000\n"
    assert read(text) == Hardware(cpu="aarch64", threads=64, clocks={"cpu_max": 2600, "cpu_governor": "performance"})
    assert read("") == Hardware(cpu="", threads=1)
    device = "threads=2\ncpu=x\ndevice=/dev/nvidia0\n"
    machine = read(device)
    assert (machine.has_gpu, machine.gpu, len(machine.doubts)) == (True, "unknown GPU", 1)
    assert not read(f"{device}gpu=Tesla T4, 470.57\n").doubts


def test_a_state_is_read_as_far_as_it_goes():
    text = (
        "stat=cpu 100 0 100 800 0 0 0 0 0 0\nstat=cpu 150 0 100 850 0 0 0 0 0 0\nprocessors=8\nkhz=2800000\n"
        "heat=61000\nheat=70500\nthrottle=3\nthrottle=4\ngpu=1980, 45, 0x0000000000000024\ngpu=300, 30, 0x0\n"
    )
    assert state_of(text) == MachineState(4.0, 2800, 70.5, 7, (1980, 300), (45, 30), ("power limit, heat", ""))
    odd = ["", "stat=cpu\nstat=cpu\nprocessors=x", "heat=\nthrottle=-\ngpu=No devices were found", "khz=1e9"]
    assert all(state_of(text) == MachineState() for text in [*odd, "khz=" + "9" * 5000])
    # An unknown clock is not 0, and GPUs keep their numbers.
    gpus = state_of("gpu=[N/A], 45, 0x4\ngpu=1980, 50, [N/A]\ngpu=1500, [N/A], 0x20\n")
    assert (gpus.gpu_clock, gpus.gpu_temperature) == ((None, 1980, 1500), (45, 50, None))
    assert gpus.gpu_slowdown == ("power limit", "", "heat")


@pytest.mark.slow
def test_long_numbers_and_many_gpus_are_not_read():
    nines = "9" * 5000
    assert read(f"cpu=x\ncpu_khz={nines}\ngpu=a,b,{nines},{nines},{nines}\n").clocks == {}
    assert len(read("".join(f"gpu=g{number},1\n" for number in range(100_000))).gpu) < 1 << 16
    assert state_of(f"gpu={nines},{nines},0x0").gpu_clock == (None,)
    assert state_of(f"stat=cpu {' '.join([nines] * 8)}\n" * 2 + "processors=2").load is None
    assert len(state_of("gpu=1,1,0x4\n" * 100_000).gpu_clock) < 10_000
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
