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
from fused_attention import archs, bench, build, diagnose, toolchain
from fused_attention.bench import cases

# The architectures that the kernels are written for, as far as this nvcc knows them.
WANTED = ("6.0", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0a", "10.0a", "12.0")


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
    """Compares the CPU kernel that ATEN_CPU_CAPABILITY names with float64."""
    build.load()
    results = bench.check(list(cases.DTYPES), "cpu")
    wrong = [result for result in results if not result["ok"]]
    for result in wrong:
        print(f"error: wrong: {result}")
    print(f"CPU kernel {torch.ops.fused_attention.cpu_capability()}: {len(results)} cases, {len(wrong)} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
