"""What nvcc makes of the CUDA sources, on a machine without a GPU: registers, spills, instructions, descriptors."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest
from fused_attention import toolchain
from torch.utils import cpp_extension

from tests.support.cuda import disassembler, toolkit

# One worker, so that its compiles are shared.
ALONE = pytest.mark.xdist_group("cuda-compile")
HOPPER = "hopper/hopper_launch"
HOPPER_KERNELS = 4  # two dtypes, two head dimensions
HOPPER_SCORES = 64  # of a thread in each tile
# What each source is compiled for, at once.
CAPABILITIES = {
    "attend_float16": ["75", "86"],
    "attend_bfloat16": ["80", "90", "120"],
    "attend_float32": ["80"],
    "attend_simt": ["75", "100a"],
    "launch": ["90"],
    HOPPER: ["90a"],
}


def output_of(*command, **options) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def nvcc(csrc):
    """Runs nvcc for a source's capabilities, for Hopper's kernel with CUTLASS's headers. Returns its messages."""
    home = toolkit()
    if home is None:
        pytest.skip("no CUDA toolkit on this machine: the CUDA sources were not compiled")
    program = toolchain.nvcc_of(str(home))

    def run(source, *arguments):
        flags = ["-std=c++14", "-Werror", "all-warnings"]
        if source == HOPPER:
            cutlass = toolchain.find_cutlass()
            if cutlass is None:
                pytest.skip("no CUTLASS (package nvidia-cutlass, or CUTLASS_HOME): Hopper's kernel was not compiled")
            if toolchain.release(toolchain.output_of([program, "--version"]) or "") < toolchain.HOPPER_NVCC:
                pytest.skip("this nvcc is too old for the kernel for Hopper")
            flags = ["-std=c++17", "-DFUSED_ATTENTION_HOPPER", "--expt-relaxed-constexpr", f"-I{cutlass}"]
        codes = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in CAPABILITIES[source]]
        return output_of(program, *flags, "-O3", f"-I{csrc}", *codes, *arguments)

    return run


@pytest.fixture(scope="session")
def compiled(nvcc, csrc, tmp_path_factory):
    """compiled(source, capability): ptxas's report and the PTX of cuda/SOURCE, and the path of its object."""

    @functools.cache
    def compile_source(source):
        folder = tmp_path_factory.mktemp("cuda")
        options = ["-c", "-Xptxas", "-v", "--keep", "--keep-dir", folder, "-o", folder / "a.o"]
        return nvcc(source, *options, csrc / f"cuda/{source}.cu"), folder

    def parts(source, capability):
        report, folder = compile_source(source)
        kernels = re.split(r"(?=ptxas info\s+: Compiling entry function)", report)
        report = "".join(part for part in kernels if f"for 'sm_{capability}'" in part)
        # nvcc names the PTX of a single capability without it.
        suffix = f"compute_{capability}.ptx" if len(CAPABILITIES[source]) > 1 else ".ptx"
        [ptx] = folder.glob(f"*{suffix}")
        return report, ptx.read_text(), folder / "a.o"

    return parts


@pytest.fixture(scope="session")
def machine_code(compiled):
    """machine_code(source, capability): the listing of the object's machine code."""
    folder = disassembler()
    if folder is None:
        pytest.skip("no cuobjdump and nvdisasm on this machine: the machine code was not read")

    def listing(source, capability):
        command = (folder / "cuobjdump", "-sass", "-arch", f"sm_{capability}", compiled(source, capability)[2])
        return output_of(*command, env={"PATH": f"{folder}:/usr/bin:/bin"})

    return listing


def resources(report):
    """Of each kernel in ptxas's report: its template's numbers, registers, spilled bytes, static shared memory."""
    kernels = re.findall(
        r"entry function '(\S+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers([^\n]*)", report, re.S
    )
    for name, spilled, registers, more in kernels:
        shared = re.search(r"(\d+) bytes smem", more)
        numbers = [int(n) for n in re.findall(r"L[ib](\d+)E", name)]
        yield numbers, int(registers), int(spilled), int(shared.group(1)) if shared else 0


@ALONE
@pytest.mark.parametrize(
    ("source", "capability", "instructions"),
    [
        ("float16", "75", ["mma.sync.aligned.m16n8k8.row.col.f32.f16", "ldmatrix.sync.aligned.m8n8.x4.trans"]),
        ("float16", "86", []),
        ("bfloat16", "80", ["mma.sync.aligned.m16n8k16.row.col.f32.bf16", "cvt.rn.bf16x2.f32", "cp.async.cg.shared"]),
        ("bfloat16", "90", []),
        ("bfloat16", "120", []),
        ("float32", "80", ["mma.sync.aligned.m16n8k8.row.col.f32.tf32", "cvt.rna.tf32.f32", "cp.async.cg.shared"]),
    ],
)
def test_the_tensor_core_kernels_fit_the_registers(compiled, source, capability, instructions):
    report, ptx, _ = compiled(f"attend_{source}", capability)
    assert [name for name in instructions if name not in ptx] == []
    kernels = list(resources(report))
    assert len(kernels) == 8
    for (dim, _, _), registers, spilled, _ in kernels:
        assert registers <= 255
        # When all registers are in use, ptxas spills some addresses that a loop reads once. 256 dimensions are not
        # tuned.
        assert spilled == 0 if capability[0] in "89" else spilled <= (128 if dim == 256 else 32)


@ALONE
@pytest.mark.parametrize("capability", ["75", "100a"])
def test_the_cuda_core_kernels_fit_48_kb(compiled, capability):
    kernels = list(resources(compiled("attend_simt", capability)[0]))
    assert len(kernels) == 9
    assert all(spilled == 0 and shared <= 48 * 1024 for _, _, spilled, shared in kernels)


@ALONE
def test_the_launch_compiles(compiled):
    compiled("launch", "90")


@ALONE
def test_the_gpu_runs_its_fastest_instructions(machine_code):
    """Tensor cores, matrix loads, copies past the registers, and the hardware's exponential."""
    sass = machine_code("attend_bfloat16", "80")
    for name in ("HMMA.16816.F32.BF16", "LDSM.16.M88.4", "LDSM.16.MT88.4", "LDGSTS.E.BYPASS.128", "MUFU.EX2"):
        assert name in sass
    assert not re.search(r"\b(STL|LDL)\b", sass)


@ALONE
def test_hoppers_kernel_has_no_spills_no_stack_and_no_warnings(compiled):
    report = compiled(HOPPER, "90a")[0]
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert frames == [("0", "0", "0")] * HOPPER_KERNELS
    # What setmaxnreg starts from: 65536 registers over 384 threads, in steps of eight.
    assert re.findall(r"Used (\d+) registers", report) == ["168"] * HOPPER_KERNELS
    # Such as C7508 (setmaxnreg is ignored) or C7510 (products are done one after the other).
    assert not re.search(r"warning|C75\d\d", report)


@ALONE
def test_hoppers_own_instructions_overlap(machine_code):
    parts = machine_code(HOPPER, "90a").split("Function : ")[1:]
    dims = [int(re.search(r"hopper_kernel\w*?Li(\d+)E", part.splitlines()[0]).group(1)) for part in parts]
    assert sorted(dims) == [64, 64, 128, 128]
    for dim, part in zip(dims, parts, strict=True):
        lines = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", part, re.MULTILINE)
        text = "\n".join(lines)
        # Scores and outputs, once in the loop and once around it; from registers with the values transposed.
        scores = re.findall(r"HGMMA\.64x128x16\.F32\S* R\d+, gdesc", text)
        outputs = re.findall(rf"HGMMA\.64x{dim}x16\.F32\S* R\d+, R\d+, gdesc\S+\.tnspB", text)
        assert len(scores) == 2 * dim // 16 and len(outputs) == 2 * 128 // 16
        assert "UTMALDG.4D" in text
        assert "USETMAXREG.DEALLOC.CTAPOOL 0x18" in text and "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xf0" in text
        assert "STG.E.128" in text and not re.search(r"\b(LDL|STL|HMMA)\b", text)
        # The softmax runs beside the product of the values: between the waits for the scores and for the outputs of
        # the loop. nvcc once moved the latter up.
        begin = next(i for i, line in enumerate(lines) if "WARPGROUP.DEPBAR.LE gsb0, 0x1" in line)
        end = next(i for i in range(begin, len(lines)) if "WARPGROUP.DEPBAR.LE gsb0, 0x0" in lines[i])
        assert sum("MUFU.EX2" in line for line in lines[begin:end]) >= HOPPER_SCORES


@ALONE
def test_hoppers_descriptors_are_cutes(nvcc, tmp_path):
    path = tmp_path / "descriptors.ptx"
    nvcc(HOPPER, "-ptx", Path(__file__).parent / "hopper_descriptors.cu", "-o", path)
    ptx = path.read_text()
    zeros = set(re.findall(r"mov\.[bu]64\s+(%rd\d+), 0;", ptx))
    stored = re.findall(r"st\.global\.[bu]64\s+\[[^]]+\],\s+(\S+);", ptx)
    assert len(stored) == 6 and set(stored) <= zeros | {"0"}


@ALONE
def test_the_operator_compiles_against_torch_and_calls_hoppers_kernel(nvcc, csrc, tmp_path):
    # A CPU build of torch ships its CUDA headers but this generated one.
    stub = tmp_path / "c10/cuda/impl/cuda_cmake_macros.h"
    stub.parent.mkdir(parents=True)
    stub.write_text("#define C10_CUDA_BUILD_SHARED_LIBS\n")
    # As one file: torch's headers take most of the time.
    (tmp_path / "both.cpp").write_text('#include "cuda/op.cpp"\n#include "cuda/device_lists.cpp"\n')
    includes = [csrc, tmp_path, toolchain.cuda_include(str(toolkit())), *cpp_extension.include_paths()]
    flags = ["-std=c++20", "-O0", toolchain.torch_define(), "-DFUSED_ATTENTION_HOPPER", *(f"-I{p}" for p in includes)]
    output_of("g++", *flags, "-c", tmp_path / "both.cpp", "-o", tmp_path / "both.o")
    assert "fused_attention::launch_hopper(" in output_of("nm", "-C", "-u", tmp_path / "both.o")
