"""The kernel for Hopper as nvcc compiles it, without a GPU: registers, instructions, and descriptors like CuTe's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from fused_attention import toolchain
from torch.utils import cpp_extension

from tests.support.cuda import disassembler, toolkit

pytestmark = [pytest.mark.long, pytest.mark.compiler, pytest.mark.xdist_group("hopper-build")]

HERE = Path(__file__).resolve().parent
TARGET = "-gencode=arch=compute_90a,code=sm_90a"
KERNELS = 4  # two dtypes, two head dimensions
SCORES = 64  # of a thread in each tile


@pytest.fixture(scope="session")
def nvcc(csrc):
    """Runs nvcc for 9.0a with CUTLASS's headers. Returns what it says."""
    home, cutlass = toolkit(), toolchain.find_cutlass()
    if home is None or cutlass is None:
        missing = "CUDA toolkit" if home is None else "CUTLASS (package nvidia-cutlass, or CUTLASS_HOME)"
        pytest.skip(f"no {missing} on this machine: the kernel for Hopper was not compiled")
    if (
        toolchain.release(toolchain.output_of([toolchain.nvcc_of(str(home)), "--version"]) or "")
        < toolchain.HOPPER_NVCC
    ):
        pytest.skip("this nvcc is too old for the kernel for Hopper")

    def run(*arguments):
        flags = ["-std=c++17", "-O3", TARGET, "-DFUSED_ATTENTION_HOPPER", "--expt-relaxed-constexpr"]
        command = [toolchain.nvcc_of(str(home)), *flags, f"-I{cutlass}", f"-I{csrc}", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture(scope="session")
def compiled(nvcc, csrc, tmp_path_factory):
    """The object file and what ptxas reported."""
    path = tmp_path_factory.mktemp("hopper") / "launch.o"
    return path, nvcc("-Xptxas=-v", "-c", csrc / "cuda/hopper/hopper_launch.cu", "-o", path)


def test_no_spills_no_stack_and_no_warnings(compiled):
    _, report = compiled
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert frames == [("0", "0", "0")] * KERNELS
    # What setmaxnreg starts from: 65536 registers over 384 threads, in steps of eight.
    assert re.findall(r"Used (\d+) registers", report) == ["168"] * KERNELS
    # Such as C7508 (setmaxnreg is ignored) or C7510 (products are done one after the other).
    assert not re.search(r"warning|C75\d\d", report)


@pytest.fixture(scope="session")
def kernels(compiled):
    """For each kernel its head dimension and its instructions in order."""
    folder = disassembler()
    if folder is None:
        pytest.skip("no cuobjdump and nvdisasm on this machine: the machine code was not read")
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    command = [str(folder / "cuobjdump"), "--dump-sass", str(compiled[0])]
    text = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    listings = []
    for part in text.split("Function : ")[1:]:
        dim = int(re.search(r"hopper_kernel\w*?Li(\d+)E", part.splitlines()[0]).group(1))
        listings.append((dim, re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", part, re.MULTILINE)))
    assert sorted(dim for dim, _ in listings) == [64, 64, 128, 128]
    return listings


def test_hoppers_own_instructions_are_there(kernels):
    for dim, lines in kernels:
        text = "\n".join(lines)
        # Scores and outputs, once in the loop and once around it; from registers with the values transposed.
        scores = re.findall(r"HGMMA\.64x128x16\.F32\S* R\d+, gdesc", text)
        outputs = re.findall(rf"HGMMA\.64x{dim}x16\.F32\S* R\d+, R\d+, gdesc\S+\.tnspB", text)
        assert len(scores) == 2 * dim // 16 and len(outputs) == 2 * 128 // 16
        assert "UTMALDG.4D" in text
        assert "USETMAXREG.DEALLOC.CTAPOOL 0x18" in text and "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xf0" in text
        assert "STG.E.128" in text and not re.search(r"\b(LDL|STL|HMMA)\b", text)


def test_the_softmax_runs_beside_the_product_of_the_values(kernels):
    # Between the waits for the scores and for the outputs of the loop. nvcc once moved the latter up.
    for _, lines in kernels:
        begin = next(i for i, line in enumerate(lines) if "WARPGROUP.DEPBAR.LE gsb0, 0x1" in line)
        end = next(i for i in range(begin, len(lines)) if "WARPGROUP.DEPBAR.LE gsb0, 0x0" in lines[i])
        assert sum("MUFU.EX2" in line for line in lines[begin:end]) >= SCORES


def test_descriptors_are_cutes(nvcc, tmp_path):
    path = tmp_path / "descriptors.ptx"
    nvcc("-ptx", HERE / "hopper_descriptors.cu", "-o", path)
    ptx = path.read_text()
    zeros = set(re.findall(r"mov\.[bu]64\s+(%rd\d+), 0;", ptx))
    stored = re.findall(r"st\.global\.[bu]64\s+\[[^]]+\],\s+(\S+);", ptx)
    assert len(stored) == 6 and set(stored) <= zeros | {"0"}


def test_the_operator_calls_it(nvcc, csrc, tmp_path):
    # A CPU build of torch ships its CUDA headers but this generated one.
    stub = tmp_path / "c10/cuda/impl/cuda_cmake_macros.h"
    stub.parent.mkdir(parents=True)
    stub.write_text("#define C10_CUDA_BUILD_SHARED_LIBS\n")
    includes = [tmp_path, toolchain.cuda_include(toolchain.find_cuda_home()), *cpp_extension.include_paths()]
    flags = ["-std=c++20", toolchain.torch_define(), "-DFUSED_ATTENTION_HOPPER", "-O0"]
    path = tmp_path / "op.o"
    command = ["g++", *flags, *(f"-I{folder}" for folder in includes), "-c", str(csrc / "cuda/op.cpp"), "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = subprocess.run(["nm", "-C", "-u", str(path)], capture_output=True, text=True, check=True).stdout
    assert "fused_attention::launch_hopper(" in names
