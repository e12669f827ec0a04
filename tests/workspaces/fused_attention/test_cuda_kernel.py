"""The CUDA kernel: its arithmetic by emulation on the CPU, and that nvcc compiles it, without a GPU."""

from __future__ import annotations

import ctypes
import math
import re
import subprocess
from pathlib import Path

import pytest
import torch
from fused_attention import reference, toolchain
from torch.utils import cpp_extension

pytestmark = pytest.mark.extension

DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
MASK_KINDS = {torch.bool: 1, torch.float32: 2, torch.bfloat16: 3, torch.float16: 4}


@pytest.fixture(scope="session")
def emulate(compile_cpp):
    """fused_attention by the emulated CUDA kernel, in both orders of threads and on two sizes of grid."""
    library = compile_cpp("cuda_kernel.cpp")

    def run(q, k, v, mask=None, is_causal=False):
        shape = (*q.shape[:3], k.shape[2])
        expanded = None if mask is None else mask.expand(shape)
        numbers = [DTYPES[q.dtype], 0 if mask is None else MASK_KINDS[mask.dtype], int(is_causal)]
        numbers += [q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3]]
        results = []
        for descending, grid in ((0, 1), (1, 3)):
            out = torch.full(q.shape, math.nan, dtype=q.dtype)
            strides = [stride for t in (q, k, v, out) for stride in t.stride()[:3]]
            strides += [0] * 4 if expanded is None else expanded.stride()
            tensors = [q, k, v, out, expanded]
            addresses = [ctypes.c_void_p(None if t is None else t.data_ptr()) for t in tensors]
            library.attend(
                (ctypes.c_void_p * 5)(*addresses),
                (ctypes.c_int64 * 25)(*numbers, *strides),
                ctypes.c_float(1 / math.sqrt(q.shape[3])),
                ctypes.c_uint(grid),
                descending,
            )
            results.append(out)
        assert torch.equal(results[0], results[1])
        return results[0]

    return run


def tensors(dtype, batch=1, heads=2, kv_heads=2, q_len=70, k_len=70, dim=64):
    generator = torch.Generator().manual_seed(q_len + dim)
    shapes = ((heads, q_len), (kv_heads, k_len), (kv_heads, k_len))
    return [torch.randn(batch, h, n, dim, generator=generator).to(dtype) for h, n in shapes]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [1, 32, 50, 64, 128, 129, 256])
def test_every_tile_shape_and_dtype(emulate, assert_close, dtype, dim):
    q, k, v = tensors(dtype, heads=1, kv_heads=1, q_len=35, dim=dim)
    assert_close(emulate(q, k, v), reference.attention(q, k, v), v)


@pytest.mark.parametrize(("q_len", "k_len"), [(1, 1), (1, 90), (90, 1), (64, 32), (65, 33), (130, 40)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_lengths_and_causal(emulate, assert_close, q_len, k_len, is_causal):
    q, k, v = tensors(torch.float32, heads=1, kv_heads=1, q_len=q_len, k_len=k_len)
    assert_close(emulate(q, k, v, is_causal=is_causal), reference.attention(q, k, v, None, is_causal), v)


def test_grouped_heads_batches_and_strides(emulate, assert_close):
    q, k, v = tensors(torch.float32, batch=2, heads=6, kv_heads=2, q_len=20, k_len=40)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    k = k[:, :, ::2]
    v = v[:, :, 20:]
    assert_close(emulate(q, k, v), reference.attention(q, k, v), v)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 70, 70), (2, 1, 1, 70), (2, 2, 70, 1)], ids=str)
def test_masks(emulate, assert_close, dtype, shape):
    q, k, v = tensors(dtype if dtype != torch.bool else torch.float32, batch=2)
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(shape, generator=generator) > 0.4
    if dtype != torch.bool:
        mask = torch.randn(shape, generator=generator).masked_fill(~mask, -math.inf).to(dtype)
    assert_close(emulate(q, k, v, mask), reference.attention(q, k, v, mask), v)


def test_rows_that_see_no_key_are_zero(emulate):
    q, k, v = tensors(torch.float32)
    mask = torch.ones(70, 70, dtype=torch.bool)
    mask[3] = mask[66] = False
    out = emulate(q, k, v, mask)
    assert not out[:, :, [3, 66]].any() and out[:, :, 4].all()


@pytest.fixture(scope="session")
def cuda_home():
    home = toolchain.find_cuda_home()
    if home is None:
        pytest.skip("no CUDA toolkit on this machine: the CUDA sources were not compiled")
    return Path(home)


@pytest.mark.parametrize("capability", ["75", "80", "86", "90", "100", "120"])
def test_nvcc_compiles_it_into_registers_and_48_kb(cuda_home, csrc, tmp_path, capability):
    code = f"arch=compute_{capability},code=sm_{capability}"
    flags = ["-std=c++14", "-O3", "-gencode", code, "-Xptxas", "-v", "-o", str(tmp_path / "launch.o")]
    command = [str(cuda_home / "bin/nvcc"), *flags, "-c", str(csrc / "cuda/launch.cu")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    spills = [int(size) for size in re.findall(r"(\d+) bytes spill stores", done.stderr)]
    shared = [int(size) for size in re.findall(r"(\d+) bytes smem", done.stderr)]
    assert len(spills) == len(shared) == 12  # three dtypes, four head dimensions
    assert max(shared) <= 48 * 1024
    # ptxas trades a few words for occupancy; an accumulator out of registers would be 64 bytes and more.
    assert max(spills) <= 32


def test_the_operator_compiles_against_torch(cuda_home, csrc, tmp_path):
    # A CPU build of torch ships its CUDA headers but this generated one.
    stub = tmp_path / "c10/cuda/impl/cuda_cmake_macros.h"
    stub.parent.mkdir(parents=True)
    stub.write_text("#define C10_CUDA_BUILD_SHARED_LIBS\n")
    includes = [tmp_path, cuda_home / "include", *cpp_extension.include_paths()]
    flags = ["-std=c++20", "-fsyntax-only", toolchain.torch_define(), *(f"-I{path}" for path in includes)]
    done = subprocess.run(["g++", *flags, str(csrc / "cuda/op.cpp")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
