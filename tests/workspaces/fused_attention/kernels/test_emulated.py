"""The CPU kernel on processors that this machine is not: compiled for them, and run under qemu-user.

qemu 7.2 (Debian 12) emulates AVX2 and no AVX-512, so the x86-64 case fails by SIGILL where the kernel for AVX2 needs
more than that.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.compiler]

# Compiler with flags, emulator with flags.
PROCESSORS = {
    "arm64": (["aarch64-linux-gnu-g++", "-march=armv8-a"], ["qemu-aarch64"]),
    "x86-64 with AVX2": (["x86_64-linux-gnu-g++"], ["qemu-x86_64", "-cpu", "max"]),
}
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


@pytest.mark.parametrize("processor", PROCESSORS)
def test_the_kernel_under_emulation(csrc, tmp_path, processor):
    compiler, emulator = PROCESSORS[processor]
    for tool in (compiler[0], emulator[0]):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    program = tmp_path / "self_test"
    flags = ["-std=c++14", "-O0", "-static", "-Wall", "-Wextra", "-Werror", f"-I{csrc}"]
    sources = [Path(__file__).parent / "self_test.cpp", *(csrc / source for source in SOURCES)]
    compiled = subprocess.run([*compiler, *flags, *sources, "-o", program], capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    done = subprocess.run([*emulator, program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    if processor != "arm64":
        assert "avx2" in done.stdout
