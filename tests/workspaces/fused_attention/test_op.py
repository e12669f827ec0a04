"""The operator as torch sees it: schema, tracing, threads, instruction sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fused_attention import build, fused_attention
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.compiler


def tensors(dtype=torch.float32, q_len=70, k_len=90, dim=32, kv_heads=2):
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 4, q_len, dim), (2, kv_heads, k_len, dim), (2, kv_heads, k_len, dim))
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


LEVELS = ["default", "avx2", "avx512", "avx512_bf16", "avx512_amx"]
OPTIONS = {
    "plain": {},
    "causal": {"is_causal": True},
    "mask": {"mask": torch.ones(90, dtype=torch.bool)},
    "scale": {"scale": 0.3},
    "structure": {"structure": torch.tensor([1, 1, 1, -9, 5, 0])},
    "alibi_slopes": {"alibi_slopes": torch.linspace(0, 1, 4)},
}


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_opcheck(options, view):
    build.load()
    arguments = tuple(view(x) for x in tensors())
    torch.library.opcheck(torch.ops.fused_attention.forward.default, arguments, options)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_a_graph_break(dynamic):
    @torch.compile(backend="aot_eager", fullgraph=True, dynamic=dynamic)
    def layer(q, k, v):
        return fused_attention(q * 2, k, v, is_causal=True) + 1

    build.load()
    for q_len in (70, 71):
        q, k, v = tensors(q_len=q_len)
        assert torch.equal(layer(q, k, v), fused_attention(q * 2, k, v, is_causal=True) + 1)


def test_a_trace_for_a_gpu_takes_a_structured_mask():
    """The structure is on the CPU and all else on the GPU, which meta kernels as such refuse."""
    build.load()
    with FakeTensorMode():
        q = torch.empty(2, 4, 70, 32, device="cuda")
        structure = torch.empty(6, dtype=torch.int64)
        out = torch.ops.fused_attention.forward(q, q, q, structure=structure)
        gradients = torch.ops.fused_attention.backward(q, [True] * 3 + [False] * 2, q, q, q, None, structure)
    assert out.device.type == "cuda" and out.shape == q.shape
    assert [t.device.type for t in gradients] == ["cuda"] * 5 and gradients[0].shape == q.shape


def test_meta_tensors_give_shape_and_strides_and_are_checked():
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors(torch.bfloat16))
    out = fused_attention(*(x.to("meta") for x in (q, k, v)))
    expected = fused_attention(q, k, v)
    assert (out.shape, out.dtype, out.stride()) == (expected.shape, expected.dtype, expected.stride())
    with pytest.raises(ValueError, match="k has batch 1"):
        fused_attention(q.to("meta"), k[:1].to("meta"), v.to("meta"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_same_bits_for_any_number_of_threads_and_from_run_to_run(dtype):
    q, k, v = tensors(dtype, q_len=300, k_len=300)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3, 7, 2):
            torch.set_num_threads(threads)
            results.append(fused_attention(q, k, v, is_causal=True))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(result, results[0]) for result in results)


def test_the_kernel_obeys_torchs_thread_count(workspace):
    """By the number of threads in the process: another OpenMP runtime than torch's would start its own."""
    code = (
        "import os, torch; from fused_attention import fused_attention; torch.set_num_threads(1);"
        "q = torch.randn(1, 8, 512, 64); fused_attention(q, q, q);"
        "one = len(os.listdir('/proc/self/task')); torch.set_num_threads(3); fused_attention(q, q, q);"
        "print(len(os.listdir('/proc/self/task')) - one)"
    )
    environment = {**os.environ, "PYTHONPATH": str(workspace), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 2


@pytest.mark.long
@pytest.mark.parametrize("capability", LEVELS)
def test_every_instruction_set(workspace, capability):
    """torch's own switch selects a narrower kernel. A wider one than the CPU's makes torch itself die by SIGILL."""
    build.load()
    widest = torch.ops.fused_attention.cpu_capability()
    has_amx = "amx_bf16" in Path("/proc/cpuinfo").read_text()
    if not has_amx if capability == "avx512_amx" else LEVELS.index(capability) > LEVELS.index(widest):
        pytest.skip(f"the CPU lacks {capability}")
    code = """
import torch
from fused_attention import bench, build
build.load()
results = bench.check(["float32", "bfloat16", "float16"], "cpu")
assert all(result["ok"] for result in results), results
print(torch.ops.fused_attention.cpu_capability())
"""
    environment = {**os.environ, "PYTHONPATH": str(workspace), "ATEN_CPU_CAPABILITY": capability}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == capability


@pytest.mark.parametrize(("narrowed", "chosen"), [("", True), ("avx512_bf16", False), ("avx512", False)])
def test_amx_is_chosen_unless_narrowed(compile_cpp, narrowed, chosen):
    """On any CPU with the instructions besides AMX, which the test pretends to have."""
    library = compile_cpp("select.cpp", "cpu/select.cpp")
    if not library.can_choose_amx():
        pytest.skip("the CPU lacks avx512_bf16")
    code = f"import ctypes; print(ctypes.CDLL({library._name!r}).chooses_amx())"
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": narrowed}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == f"{int(chosen)}\n"
