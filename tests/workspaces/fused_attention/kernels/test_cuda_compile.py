"""What nvcc makes of the CUDA sources, on a machine without a GPU: registers, spills and instructions."""

from __future__ import annotations

import re
import subprocess

import pytest
from fused_attention import toolchain
from torch.utils import cpp_extension

from tests.support.cuda import disassembler, toolkit

pytestmark = pytest.mark.compiler

FLAGS = ["-std=c++14", "-O3", "-Werror", "all-warnings"]


@pytest.fixture(scope="session")
def cuda_home():
    home = toolkit()
    if home is None:
        pytest.skip("no CUDA toolkit on this machine: the CUDA sources were not compiled")
    return home


def compile_cuda(cuda_home, source, capability, target, *flags):
    code = f"arch=compute_{capability},code=sm_{capability}"
    command = [str(cuda_home / "bin/nvcc"), *FLAGS, "-gencode", code, *flags, "-o", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def resources(report):
    """Of each kernel in ptxas's report: its template's numbers, registers, spilled bytes, static shared memory."""
    found = re.findall(
        r"entry function '(\S+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers([^\n]*)", report, re.S
    )
    for name, spilled, registers, rest in found:
        shared = re.search(r"(\d+) bytes smem", rest)
        numbers = [int(n) for n in re.findall(r"L[ib](\d+)E", name)]
        yield numbers, int(registers), int(spilled), int(shared.group(1)) if shared else 0


@pytest.mark.parametrize(
    ("source", "capability"),
    [("float16", "75"), ("float16", "86"), ("bfloat16", "90"), ("bfloat16", "120")],
)
def test_the_tensor_core_kernels_fit_the_registers(cuda_home, csrc, tmp_path, source, capability):
    source = csrc / f"cuda/attend_{source}.cu"
    report = compile_cuda(cuda_home, source, capability, tmp_path / "a.o", "-c", "-Xptxas", "-v")
    kernels = list(resources(report))
    assert len(kernels) == 8
    for (dim, _, _), registers, spilled, _ in kernels:
        assert registers <= 255
        # Where the registers are all in use, ptxas puts some addresses, which a loop reads once, into memory. 256
        # dimensions are not tuned.
        assert spilled == 0 if capability[0] in "89" else spilled <= (128 if dim == 256 else 32)


@pytest.mark.parametrize("capability", ["75", "100a"])
def test_the_cuda_core_kernels_fit_48_kb(cuda_home, csrc, tmp_path, capability):
    source = csrc / "cuda/attend_simt.cu"
    report = compile_cuda(cuda_home, source, capability, tmp_path / "a.o", "-c", "-Xptxas", "-v")
    kernels = list(resources(report))
    assert len(kernels) == 9
    assert all(spilled == 0 and shared <= 48 * 1024 for _, _, spilled, shared in kernels)


def test_the_launch_compiles(cuda_home, csrc, tmp_path):
    compile_cuda(cuda_home, csrc / "cuda/launch.cu", "90", tmp_path / "a.o", "-c")


@pytest.mark.parametrize(
    ("source", "capability", "instructions"),
    [
        ("float16", "75", ["mma.sync.aligned.m16n8k8.row.col.f32.f16", "ldmatrix.sync.aligned.m8n8.x4.trans"]),
        ("bfloat16", "80", ["mma.sync.aligned.m16n8k16.row.col.f32.bf16", "cvt.rn.bf16x2.f32", "cp.async.cg.shared"]),
    ],
)
def test_each_architecture_gets_its_instructions(cuda_home, csrc, tmp_path, source, capability, instructions):
    command = [str(cuda_home / "bin/nvcc"), *FLAGS, "-arch", f"compute_{capability}", "-ptx"]
    source = csrc / f"cuda/attend_{source}.cu"
    subprocess.run([*command, "-o", str(tmp_path / "a.ptx"), str(source)], check=True, capture_output=True)
    ptx = (tmp_path / "a.ptx").read_text()
    assert [name for name in instructions if name not in ptx] == []


def test_what_the_gpu_runs(cuda_home, csrc, tmp_path):
    """In machine code: tensor cores, matrix loads, copies past the registers, and the hardware's exponential."""
    folder = disassembler()
    if folder is None:
        pytest.skip("no cuobjdump and nvdisasm on this machine: the machine code was not read")
    compile_cuda(cuda_home, csrc / "cuda/attend_bfloat16.cu", "80", tmp_path / "a.cubin", "-cubin")
    command = [str(folder / "cuobjdump"), "-sass", str(tmp_path / "a.cubin")]
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    sass = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    for name in ("HMMA.16816.F32.BF16", "LDSM.16.M88.4", "LDSM.16.MT88.4", "LDGSTS.E.BYPASS.128", "MUFU.EX2"):
        assert name in sass
    assert not re.search(r"\b(STL|LDL)\b", sass)


@pytest.mark.parametrize("source", ["op.cpp", "device_lists.cpp"])
def test_the_operator_compiles_against_torch(cuda_home, csrc, tmp_path, source):
    # A CPU build of torch ships its CUDA headers but this generated one.
    stub = tmp_path / "c10/cuda/impl/cuda_cmake_macros.h"
    stub.parent.mkdir(parents=True)
    stub.write_text("#define C10_CUDA_BUILD_SHARED_LIBS\n")
    includes = [tmp_path, cuda_home / "include", *cpp_extension.include_paths()]
    flags = ["-std=c++20", "-fsyntax-only", toolchain.torch_define(), *(f"-I{path}" for path in includes)]
    done = subprocess.run(["g++", *flags, str(csrc / "cuda" / source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
