"""What the probe says of a machine with several GPUs, with a broken driver, with none."""

from __future__ import annotations

import os
from pathlib import Path

from reprokit.bench.hardware import Hardware, probe, read


def fake_smi(tmp_path, *rows: str, before: str = "") -> None:
    script = tmp_path / "bin" / "nvidia-smi"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\n{before}\n" + "".join(f"echo '{row}'\n" for row in rows))
    script.chmod(0o755)


def test_a_machine_without_a_gpu(here):
    found = probe(here)
    assert found.cpu
    assert found.threads == len(os.sched_getaffinity(0))
    device = Path("/dev/nvidia0").exists()
    assert (found.gpu, found.driver, found.has_gpu) == ("unknown GPU" * device, "", device)


def test_several_gpus_are_counted_and_keep_their_clocks(here, tmp_path):
    fake_smi(
        tmp_path,
        "NVIDIA GeForce RTX 3090, 470.57.02, 2100, 9751, [N/A]",
        "NVIDIA GeForce RTX 3090, 470.57.02, 1980, 9751, [N/A]",
        "Tesla T4, 470.57.02, 1590, 5001, 1590",
    )
    found = probe(here)
    assert found.gpu == "2x NVIDIA GeForce RTX 3090, Tesla T4"
    assert found.driver == "470.57.02"
    assert found.has_gpu
    assert {k: v for k, v in found.clocks.items() if k.startswith("gpu")} == {
        "gpu_max_sm": [2100, 1980, 1590],
        "gpu_max_memory": [9751, 9751, 5001],
    }


def test_one_gpu_has_plain_numbers(here, tmp_path):
    fake_smi(tmp_path, "NVIDIA H200, 570.86.15, 1980, 3201, 1980")
    clocks = probe(here).clocks
    assert (clocks["gpu_max_sm"], clocks["gpu_max_memory"], clocks["gpu_applications"]) == (1980, 3201, 1980)


def test_a_driver_without_those_fields_still_names_its_gpu(here, tmp_path):
    refuse = 'case $* in *clocks*) echo "Field \\"clocks.max.sm\\" is not a valid field to query."; exit 2;; esac'
    fake_smi(tmp_path, "Tesla K80, 460.32.03", before=refuse)
    found = probe(here)
    assert (found.gpu, found.driver, found.has_gpu) == ("Tesla K80", "460.32.03", True)


def test_a_driver_that_answers_with_a_sentence_is_no_gpu(here, tmp_path):
    fake_smi(tmp_path, "No devices were found")
    assert (probe(here).gpu, probe(here).driver) == ("", "")


def test_processors_without_a_model_name_are_named_by_their_machine():
    text = "threads=64\ncpu=\nmachine=aarch64\ngovernor=performance\ncpu_khz=2600000\n"
    assert read(text) == Hardware(cpu="aarch64", threads=64, clocks={"cpu_max": 2600, "cpu_governor": "performance"})


def test_devices_without_nvidia_smi_are_a_gpu_in_doubt():
    found = read("threads=2\ncpu=x\ndevice=/dev/nvidia0\n")
    assert (found.has_gpu, found.gpu, len(found.doubts)) == (True, "unknown GPU", 1)
    assert not read("threads=2\ncpu=x\ndevice=/dev/nvidia0\ngpu=Tesla T4, 470.57\n").doubts


def test_slices_of_a_gpu_are_not_the_whole_one(here, tmp_path):
    slices = """echo 'GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)'
        echo '  MIG 3g.20gb     Device  0: (UUID: MIG-7089d0f3)'
        echo '  MIG 3g.20gb     Device  1: (UUID: MIG-56c30729)'
        echo 'GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-c9e2d8a1)'; exit"""
    row = "NVIDIA A100-SXM4-40GB, 535.54, 1410, 1215, 1095"
    fake_smi(tmp_path, row, row, before=f"case $* in -L) {slices};; esac")
    assert probe(here).gpu == "2x NVIDIA A100-SXM4-40GB MIG 3g.20gb, NVIDIA A100-SXM4-40GB"


def test_long_numbers_and_many_gpus_are_not_read():
    nines = "9" * 5000
    assert read(f"cpu=x\ncpu_khz={nines}\ngpu=a,b,{nines},{nines},{nines}\n").clocks == {}
    assert len(read("".join(f"gpu=g{number},1\n" for number in range(1_000_000))).gpu) < 1 << 16


def test_no_answer_is_no_hardware():
    assert read("") == Hardware(cpu="", threads=1)
