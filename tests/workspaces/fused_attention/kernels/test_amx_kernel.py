"""The CPU kernel on emulated AMX tiles against float64: plans, packs, softmax and both products together."""

from __future__ import annotations

import ctypes
import math
import re
from pathlib import Path

import pytest
import torch
from fused_attention import reference
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = [pytest.mark.long, pytest.mark.compiler]

# The first example may wait for a compile.
many = settings(max_examples=60)

MASK_KINDS = {torch.bool: 1, torch.float32: 2, torch.bfloat16: 3}

# Of csrc/structure.h.
BAND, RESIDUE, AND, OR = 1, 2, 13, 14
FAR = 2**40


def has_avx512_bf16():
    return bool(re.search(r"\bavx512_bf16\b", Path("/proc/cpuinfo").read_text()))


@pytest.fixture(
    scope="session",
    params=[
        "amx_kernel.cpp",
        pytest.param(
            "amx_kernel_avx512.cpp", marks=pytest.mark.skipif(not has_avx512_bf16(), reason="the CPU lacks avx512_bf16")
        ),
    ],
)
def attend(request, compile_cpp):
    """fused_attention by the kernel with emulated tiles; the whole and in three parts give the same."""
    library = compile_cpp(request.param, "cpu/plan.cpp", "cpu/plans.cpp", "structure.cpp")

    def run(q, k, v, mask=None, *, structure=None, is_causal=False, scale=None, alibi=None, cu_q=None, cu_k=None):
        batch, q_len, k_len = q.shape[0], q.shape[2], k.shape[2]
        if cu_q is not None:
            batch, q_len, k_len = (len(cu_q) - 1, *(int(torch.diff(cu).max()) for cu in (cu_q, cu_k)))
        expanded = None if mask is None else mask.expand(batch, q.shape[1], q_len, k_len)
        numbers = [0 if mask is None else MASK_KINDS[mask.dtype], int(is_causal)]
        numbers += [batch, q.shape[1], k.shape[1], q_len, k_len, q.shape[3]]
        numbers += [0 if structure is None else len(structure)]
        results = []
        for parts in (1, 3):
            out = torch.full(q.shape, math.nan, dtype=q.dtype)
            strides = [0 if cu_q is not None and i == 0 else t.stride(i) for t in (q, k, v, out) for i in range(3)]
            strides += [0] * 4 if expanded is None else expanded.stride()
            tensors = [q, k, v, out, expanded, structure, alibi, cu_q, cu_k]
            addresses = [ctypes.c_void_p(None if t is None else t.data_ptr()) for t in tensors]
            library.attend(
                (ctypes.c_void_p * 9)(*addresses),
                (ctypes.c_int64 * 25)(*numbers, *strides),
                ctypes.c_float(1 / math.sqrt(q.shape[3]) if scale is None else scale),
                parts,
            )
            results.append(out)
        assert torch.equal(results[0].view(torch.int16), results[1].view(torch.int16))
        return results[0]

    return run


def tensors(batch=1, heads=2, kv_heads=2, q_len=70, k_len=70, dim=64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((heads, q_len), (kv_heads, k_len), (kv_heads, k_len))
    return [torch.randn(batch, h, n, dim, generator=generator).bfloat16() for h, n in shapes]


def program(*instructions):
    """A structured mask: instructions in postfix order."""
    words = [word for instruction in instructions for word in (*instruction, 0, 0, 0)[:4]]
    return torch.tensor([1, len(instructions), *words])


def window(q_len, k_len):
    """Keys up to 20 before a row: as a program and as a tensor."""
    distance = torch.arange(k_len) - torch.arange(q_len)[:, None]
    return program((BAND, -20, 0)), (distance >= -20) & (distance <= 0)


def strided(q_len, k_len):
    """Causal: the last 3 keys and every 7th before. Plans compute such a mask in two phases."""
    distance = torch.arange(k_len) - torch.arange(q_len)[:, None]
    whole = program((BAND, -3, 0), (RESIDUE, 7, 0), (OR,), (BAND, -FAR, 0), (AND,))
    return whole, ((distance >= -3) | (distance % 7 == 0)) & (distance <= 0)


@many
@given(
    batch=st.integers(1, 2),
    kv_heads=st.integers(1, 2),
    groups=st.integers(1, 2),
    q_len=st.integers(1, 150),
    k_len=st.integers(1, 250),
    dim=st.one_of(st.integers(1, 256), st.sampled_from([32, 64, 128])),
    kind=st.sampled_from(["none", "causal", "bool", "float", "bfloat16", "alibi", "window", "strided"]),
    layout=st.sampled_from(["bhsd", "bshd", "odd"]),
    scale=st.sampled_from([None, 0.3, -0.2, 0.0]),
    seed=st.integers(0, 1000),
)
def test_against_float64(attend, assert_close, batch, kv_heads, groups, q_len, k_len, dim, kind, layout, scale, seed):
    q, k, v = tensors(batch, kv_heads * groups, kv_heads, q_len, k_len, dim, seed)
    if layout == "bshd":
        q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
    elif layout == "odd":
        q, k, v = (torch.nn.functional.pad(t, (0, 5), value=math.nan)[..., :dim] for t in (q, k, v))
    generator = torch.Generator().manual_seed(seed)
    mask = structure = alibi = expected_mask = None
    if kind == "bool":
        mask = expected_mask = torch.rand(batch, 1, q_len, k_len, generator=generator) < 0.3
    elif kind in ("float", "bfloat16"):
        mask = torch.randn(q_len, k_len, generator=generator)
        mask = mask.masked_fill(torch.rand(q_len, k_len, generator=generator) < 0.2, -math.inf)
        mask = expected_mask = mask.bfloat16() if kind == "bfloat16" else mask
    elif kind == "alibi":
        alibi = torch.rand(kv_heads * groups, generator=generator)
        distance = (torch.arange(k_len) - torch.arange(q_len)[:, None]).abs()
        expected_mask = -alibi[:, None, None] * distance
    elif kind in ("window", "strided"):
        structure, expected_mask = (window if kind == "window" else strided)(q_len, k_len)
    out = attend(q, k, v, mask, structure=structure, is_causal=kind == "causal", scale=scale, alibi=alibi)
    assert_close(out, reference.attention(q, k, v, expected_mask, kind == "causal", scale), v)


def test_packed_sequences(attend, assert_close):
    lengths_q, lengths_k = [1, 0, 70, 33], [40, 5, 100, 33]
    cu_q, cu_k = (torch.tensor([0, *n]).cumsum(0).int() for n in (lengths_q, lengths_k))
    q, k, v = tensors(q_len=sum(lengths_q), k_len=sum(lengths_k), dim=40)
    out = attend(q, k, v, is_causal=True, cu_q=cu_q, cu_k=cu_k)
    for i in range(len(lengths_q)):
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        expected = reference.attention(q[:, :, rows], k[:, :, keys], v[:, :, keys], is_causal=True)
        assert_close(out[:, :, rows], expected, v)


def test_large_scores_and_their_order(attend, assert_close):
    """Each chunk of keys raises the maximum, or none after the first does."""
    q, k, v = tensors(q_len=64, k_len=300)
    growth = torch.linspace(1, 40, 300)[:, None]
    for factors in (growth, growth.flip(0)):
        larger = (k * factors).bfloat16()
        assert_close(attend(q, larger, v), reference.attention(q, larger, v), v)


def test_nan_stays_in_its_row(attend):
    q, k, v = tensors(q_len=40, k_len=100)
    q[0, 1, 7, 3] = math.nan
    out = attend(q, k, v)
    is_nan = torch.zeros(2, 40, dtype=torch.bool)
    is_nan[1, 7] = True
    assert torch.equal(out[0].isnan().all(-1), is_nan) and torch.equal(out[0].isnan().any(-1), is_nan)


def test_keys_that_nobody_sees_do_not_matter(attend):
    q, k, v = tensors(q_len=40, k_len=100)
    mask = torch.ones(100, dtype=torch.bool)
    mask[50:] = False
    expected = attend(q, k, v, mask)
    k[:, :, 50:], v[:, :, 50:] = math.nan, 1e30
    assert torch.equal(attend(q, k, v, mask), expected)
