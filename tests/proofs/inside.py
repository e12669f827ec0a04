"""What cuda_containers.py runs inside: builds the extension for many architectures, loads it, checks the CPU kernels.

Runs on Python 3.6 and torch 1.8, without a GPU. Exit code 1 if anything is wrong.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import torch
from fused_attention import archs, build, diagnose, fused_attention, reference, toolchain

# The architectures that the kernels are written for, as far as this nvcc knows them.
WANTED = ("6.0", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0a", "10.0a", "12.0")

# Half a unit in the last place of each dtype; what float32 sums may lose, and weights rounded to bfloat16.
ROUNDING = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
SLACK = {torch.float32: 5e-6, torch.bfloat16: 2.0**-8, torch.float16: 5e-6}

# batch, heads, kv_heads, q_len, k_len, dim
SHAPES = (
    (1, 1, 1, 1, 1, 1),
    (2, 4, 2, 65, 33, 64),
    (1, 3, 1, 130, 257, 128),
    (2, 2, 2, 40, 96, 20),
    (1, 2, 2, 17, 70, 256),
)


def main():
    if os.environ.get("PROOF_PART") == "numerics":
        return check_numerics()
    nvcc = toolchain.nvcc_of(toolchain.find_cuda_home())
    known = archs.from_help(toolchain.output_of([nvcc, "--help"]))
    os.environ["TORCH_CUDA_ARCH_LIST"] = ";".join(arch for arch in WANTED if arch in known)
    tools = toolchain.find()
    major, minor = toolchain.release(tools.nvcc_version)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, {tools.compiler_version}")
    print(f"nvcc {major}.{minor} for {' '.join(tools.archs)}", flush=True)
    started = time.time()
    build.load()
    hopper = "with" if tools.cutlass else "without"
    print(f"built and loaded in {time.time() - started:.0f} s, {hopper} Hopper's kernel", flush=True)
    started = time.time()
    # Not in the workspace, whose package would come before the one to prove.
    subprocess.check_call([sys.executable, "-c", "from fused_attention import build; build.load()"], cwd="/")
    print(f"a second process, torch's import with it: {time.time() - started:.1f} s")
    folder = Path(build.build_folder(build.SOURCE_FOLDER, build.source_files(tools), tools))
    library = folder / (build.NAME + ".so")
    print(f"library: {library.stat().st_size / 1e6:.1f} MB")
    kernels = resources(toolchain.output_of([nvcc.replace("nvcc", "cuobjdump"), "-res-usage", str(library)]))
    for name, arch, registers, stack, shared in kernels:
        print(f"{arch:7} {registers:3} registers {stack:4} bytes of stack {shared:6} bytes shared  {name}")
    spilled = re.findall(r"([1-9]\d*) bytes spill stores", (folder / "build.log").read_text(encoding="utf-8"))
    print(f"{len(kernels)} kernels, {len(spilled)} of them with spills{':' if spilled else ''} {' '.join(spilled)}")
    compiled = {arch for _, arch, _, _, _ in kernels}
    missing = {"sm_" + arch.replace(".", "") for arch in tools.archs} - compiled
    if missing or not torch._C._dispatch_has_kernel_for_dispatch_key("fused_attention::forward", "CUDA"):
        print(f"error: no CUDA kernel, or none for {', '.join(sorted(missing))}")
        return 1
    wrong = 0
    for capability in ("default", "avx2", "avx512", "avx512_bf16"):
        environment = dict(os.environ, PROOF_PART="numerics", ATEN_CPU_CAPABILITY=capability)
        wrong += subprocess.call([sys.executable, __file__], env=environment)
    return int(wrong > 0)


def resources(dump):
    """(kernel, architecture, registers, bytes of stack, bytes of shared memory) of each, by cuobjdump -res-usage."""
    found = []
    for part in re.split(r"^arch = ", dump, flags=re.MULTILINE)[1:]:
        arch = part.split()[0]
        used = re.findall(r"Function (\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", part)
        for symbol, registers, stack, shared in used:
            name = re.sub(r"^void |\(.*", "", diagnose.demangle(symbol) or symbol)
            found.append((name, arch, int(registers), int(stack), int(shared)))
    return sorted(found)


def check_numerics():
    """Compares the CPU kernel that ATEN_CPU_CAPABILITY asks for with float64."""
    build.load()
    torch.manual_seed(0)
    wrong = cases = 0
    for shape in SHAPES:
        for dtype in ROUNDING:
            for kind in ("none", "causal", "boolean", "additive", "transposed", "nothing"):
                cases += 1
                error, allowed = compare(shape, dtype, kind)
                if not error <= allowed:
                    wrong += 1
                    print(f"error: {shape} {dtype} {kind} is wrong by {error:g}, allowed are {allowed:g}")
    print(f"CPU kernel {torch.ops.fused_attention.cpu_capability()}: {cases} cases, {wrong} wrong")
    return int(wrong > 0)


def compare(shape, dtype, kind):
    """The largest error beyond rounding, and what is allowed."""
    batch, heads, kv_heads, q_len, k_len, dim = shape
    q = torch.randn(batch, heads, q_len, dim).to(dtype)
    k = torch.randn(batch, kv_heads, k_len, dim).to(dtype)
    v = torch.randn(batch, kv_heads, k_len, dim).to(dtype)
    mask = None
    if kind == "boolean":
        mask = torch.rand(batch, 1, q_len, k_len) > 0.5
    elif kind == "nothing":
        mask = torch.zeros(q_len, k_len, dtype=torch.bool)
    elif kind == "additive":
        mask = torch.randn(heads, q_len, k_len).unsqueeze(0)
    elif kind == "transposed":
        q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
    out = fused_attention(q, k, v, mask, is_causal=kind == "causal")
    expected = reference.attention(q, k, v, mask, kind == "causal")
    beyond = (out.double() - expected).abs() - ROUNDING[dtype] * 1.01 * expected.abs()
    return float(beyond.max()), SLACK[dtype] * float(v.double().abs().max())


if __name__ == "__main__":
    sys.exit(main())
