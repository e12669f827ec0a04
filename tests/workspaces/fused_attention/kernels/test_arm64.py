"""The CPU kernel for arm64: compiled by a cross compiler, and run under an emulator where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiler

COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64"
# What the CPU kernel is made of, but for what needs torch.
SOURCES = [
    "structure.cpp",
    "cpu/select.cpp",
    "cpu/plan.cpp",
    "cpu/plans.cpp",
    "cpu/amx.cpp",
    "cpu/attention_default.cpp",
    "cpu/attention_avx2.cpp",
    "cpu/attention_avx512.cpp",
    "cpu/attention_avx512_bf16.cpp",
    "cpu/attention_avx512_amx.cpp",
]


@pytest.mark.skipif(not shutil.which(COMPILER), reason=f"{COMPILER} is missing")
def test_arm64(csrc, tmp_path):
    program = tmp_path / "self_test"
    flags = ["-std=c++14", "-O2", "-march=armv8-a", "-static", "-Wall", "-Wextra", "-Werror", f"-I{csrc}"]
    sources = [Path(__file__).parent / "self_test.cpp", *(csrc / source for source in SOURCES)]
    compiled = subprocess.run([COMPILER, *flags, *sources, "-o", program], capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    if not shutil.which(EMULATOR):
        pytest.skip(f"compiled; {EMULATOR} is missing")
    done = subprocess.run([EMULATOR, program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
