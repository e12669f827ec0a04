"""The Hopper kernel, run on the CPU by an emulation of TMA, mbarriers and wgmma."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
import torch
from fused_attention import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.kernel_calls import hopper_numbers, pointers

pytestmark = [pytest.mark.long, pytest.mark.compiler]

ROUNDING = {torch.bfloat16: 2**-8, torch.float16: 2**-11}
HALVES = pytest.mark.parametrize("dtype", ROUNDING, ids=str)
BAND, KEY_BELOW, BLOCK_TABLE, AND = 1, 9, 12, 13
TILE = 128  # query rows, and keys
BLOCKS = 3  # thread blocks: fewer than there are pieces of work
UNBOUNDED = 1 << 40


def structure(instructions, data=()):
    """The tensor of structure.h; `a` of instructions with data counts from the data's begin."""
    begin = 2 + 4 * len(instructions)
    words = [1, len(instructions)]
    for op, a, b, c in instructions:
        words += [op, begin + a if op in (KEY_BELOW, BLOCK_TABLE) else a, b, c]
    return torch.tensor([*words, *data], dtype=torch.int64)


def table(mask):
    """Any boolean [q, k] as a structure."""
    width = (mask.shape[1] + 63) // 64
    bits = np.zeros((mask.shape[0], width * 64), dtype=np.uint8)
    bits[:, : mask.shape[1]] = mask.numpy()
    words = np.packbits(bits, axis=1, bitorder="little").view(np.int64)
    return structure([(BLOCK_TABLE, 0, 1, mask.shape[1])], words.flatten().tolist())


def tensors(dtype, batch=1, heads=2, kv_heads=2, q_len=200, k_len=200, dim=64):
    generator = torch.Generator().manual_seed(q_len + dim)
    shapes = ((heads, q_len), (kv_heads, k_len), (kv_heads, k_len))
    return [torch.randn(batch, h, n, dim, generator=generator).to(dtype) for h, n in shapes]


@pytest.fixture(scope="session")
def emulate(hopper_library):
    """fused_attention by the emulated kernel: asynchronous work done as early, and as late, as it may be."""

    def run(
        q,
        k,
        v,
        program=None,
        is_causal=False,
        *,
        by_head=False,
        cu_q=None,
        cu_k=None,
        alibi=None,
        scale=None,
        cache=1 << 20,
    ):
        packed = None
        if cu_q is not None:
            packed = (len(cu_q) - 1, int(cu_q.diff().max()), int(cu_k.diff().max()))
        results = []
        for late in (0, 1):
            out = torch.empty_like(q).fill_(math.nan)
            taken = hopper_library.attend(
                pointers(q, k, v, out, cu_q, cu_k, alibi),
                hopper_numbers(q, k, v, out, is_causal, packed),
                ctypes.c_float(1 / math.sqrt(q.shape[3]) if scale is None else scale),
                ctypes.c_void_p(None if program is None else program.data_ptr()),
                ctypes.c_int64(0 if program is None else len(program)),
                int(by_head),
                ctypes.c_int64(cache),
                BLOCKS,
                late,
            )
            assert taken
            results.append(out)
        assert torch.equal(*results) or torch.equal(*(r.isnan() for r in results))
        return results[0]

    return run


def check(out, q, k, v, mask=None, is_causal=False, scale=None, slack=2e-5):
    """Against float64, within the rounding of weights and of the output: one key too many or too few is more.

    `slack` is what float32 may lose.
    """
    expected = reference.attention(q, k, v, mask, is_causal, scale)
    weighed = reference.attention(q, k, v.abs(), mask, is_causal, scale)
    unit = ROUNDING[out.dtype]
    allowed = unit * (1.05 * weighed + 1.01 * expected.abs()) + slack
    error = (out.double() - expected).abs()
    # Written so that a NaN fails.
    assert bool((error <= allowed).all()), f"error {error.max()}, allowed {allowed.max()}"


@HALVES
@pytest.mark.parametrize("dim", [8, 64, 72, 128])
@pytest.mark.parametrize("is_causal", [False, True])
def test_head_dimensions(emulate, dtype, dim, is_causal):
    q, k, v = tensors(dtype, dim=dim, heads=1, kv_heads=1)
    check(emulate(q, k, v, is_causal=is_causal), q, k, v, is_causal=is_causal)


@pytest.mark.parametrize(
    ("q_len", "k_len"), [(1, 1), (64, 65), (65, 127), (128, 128), (129, 257), (1, 700), (400, 1), (300, 130)]
)
@pytest.mark.parametrize("is_causal", [False, True])
def test_lengths(emulate, q_len, k_len, is_causal):
    q, k, v = tensors(torch.float16, heads=1, kv_heads=1, q_len=q_len, k_len=k_len)
    check(emulate(q, k, v, is_causal=is_causal), q, k, v, is_causal=is_causal)


def test_grouped_heads_batches_and_strides(emulate):
    q, k, v = tensors(torch.bfloat16, batch=2, heads=6, kv_heads=2, q_len=140)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    k = k[:, :, ::2]
    v = torch.cat([v, v], dim=3)[:, :, 100:, 64:]
    check(emulate(q, k, v, cache=1), q, k, v)


def test_broadcast_batches_and_heads(emulate):
    q, k, v = tensors(torch.float16, heads=1, kv_heads=1, q_len=70)
    q, k, v = q.expand(2, 3, -1, -1).contiguous(), k.expand(2, 3, -1, -1), v.expand(2, 3, -1, -1)
    check(emulate(q, k, v), q, k, v)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("share", [0.03, 0.5, 0.97])
def test_any_mask(emulate, share, is_causal):
    q, k, v = tensors(torch.float16, heads=1, kv_heads=1, q_len=260, k_len=330)
    mask = torch.rand(260, 330, generator=torch.Generator().manual_seed(1)) < share
    mask[128:256, 128:256] = True
    mask[:128, 256:] = False
    mask[[0, 77, 259]] = False
    out = emulate(q, k, v, table(mask), is_causal)
    check(out, q, k, v, mask, is_causal)
    assert not out[:, :, [0, 77, 259]].any()


@HALVES
@pytest.mark.parametrize("width", [1, 100, 128])
def test_window_skips_tiles(emulate, dtype, width):
    q, k, v = tensors(dtype, heads=1, kv_heads=1, q_len=520, k_len=520)
    distance = torch.arange(520) - torch.arange(520)[:, None]
    check(emulate(q, k, v, structure([(BAND, -width, width, 0)])), q, k, v, distance.abs() <= width)


@pytest.mark.parametrize("by_head", [False, True])
def test_masks_that_differ_by_batch_or_head(emulate, by_head):
    q, k, v = tensors(torch.float16, batch=1 if by_head else 3, heads=3 if by_head else 1, kv_heads=1, k_len=300)
    lengths = torch.tensor([0, 300, 129])
    mask = torch.arange(300) < (lengths[None, :, None, None] if by_head else lengths[:, None, None, None])
    out = emulate(q, k, v, structure([(KEY_BELOW, 0, 3, 0)], lengths.tolist()), by_head=by_head)
    check(out, q, k, v, mask)
    assert not out.reshape(3, -1)[0].any()


def packed_inputs(dtype, dim, heads=2, kv_heads=1):
    """Sequences of several lengths, none among them, each surrounded by values that no other may see."""
    cu_q = torch.tensor([0, 5, 5, 205, 333, 340], dtype=torch.int32)
    cu_k = torch.tensor([0, 130, 140, 140, 410, 538], dtype=torch.int32)
    q, k, v = tensors(dtype, heads=heads, kv_heads=kv_heads, q_len=340, k_len=538, dim=dim)
    return q, k, v, cu_q, cu_k


def sequences(q, k, v, cu_q, cu_k):
    for i in range(len(cu_q) - 1):
        rows, keys = slice(int(cu_q[i]), int(cu_q[i + 1])), slice(int(cu_k[i]), int(cu_k[i + 1]))
        yield i, rows, q[:, :, rows], k[:, :, keys], v[:, :, keys]


@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("is_causal", [False, True])
def test_packed_sequences(emulate, dim, is_causal):
    q, k, v, cu_q, cu_k = packed_inputs(torch.float16, dim)
    out = emulate(q, k, v, is_causal=is_causal, cu_q=cu_q, cu_k=cu_k)
    for _, rows, *own in sequences(q, k, v, cu_q, cu_k):
        check(out[:, :, rows], *own, is_causal=is_causal)


def test_nothing_leaks_between_packed_sequences(emulate):
    q, k, v, cu_q, cu_k = packed_inputs(torch.bfloat16, 64)
    for t, cu in ((q, cu_q), (k, cu_k), (v, cu_k)):
        t[:, :, int(cu[3]) : int(cu[4])] = math.nan
    out = emulate(q, k, v, cu_q=cu_q, cu_k=cu_k)
    for i, rows, *own in sequences(q, k, v, cu_q, cu_k):
        if i == 3:
            assert out[:, :, rows].isnan().all()
        else:
            check(out[:, :, rows], *own)


@pytest.mark.parametrize("is_causal", [False, True])
def test_structured_masks_of_packed_sequences(emulate, is_causal):
    q, k, v, cu_q, cu_k = packed_inputs(torch.float16, 64)
    lengths = [100, 4, 9, 250, 128]
    program = structure([(KEY_BELOW, 0, 5, 0), (BAND, -150, UNBOUNDED, 0), (AND, 0, 0, 0)], lengths)
    out = emulate(q, k, v, program, is_causal, cu_q=cu_q, cu_k=cu_k)
    for i, rows, *own in sequences(q, k, v, cu_q, cu_k):
        row, key = torch.arange(own[0].shape[2])[:, None], torch.arange(own[1].shape[2])
        check(out[:, :, rows], *own, (key < lengths[i]) & (key - row >= -150), is_causal)


@pytest.mark.parametrize("is_causal", [False, True])
def test_alibi(emulate, is_causal):
    q, k, v = tensors(torch.float16, heads=4, kv_heads=2, q_len=150, k_len=290)
    slopes = torch.tensor([0.5, 0.01, 0.0, 2.0])
    distance = torch.arange(290) - torch.arange(150)[:, None]
    bias = -slopes[:, None, None].double() * distance.abs()
    out = emulate(q, k, v, is_causal=is_causal, alibi=slopes)
    check(out, q, k, v, bias, is_causal)


def test_scale_and_extreme_scores(emulate):
    q, k, v = tensors(torch.float16, heads=1, kv_heads=1, k_len=300)
    check(emulate(q, k, v, scale=3.0), q, k, v, scale=3.0)
    # A unit in the last place of the largest score, about 60000, is 2^-8: an error of the weights.
    check(emulate(q * 100, k * 100, v), q * 100, k * 100, v, slack=0.02)
    # Rising scores: every tile corrects what came before.
    k = k + torch.arange(300).half()[:, None] / 8 * q[:, :, :1].sign()
    check(emulate(q, k, v), q, k, v)


def test_nan_and_infinity_stay_in_their_rows(emulate):
    q, k, v = tensors(torch.bfloat16, heads=1, kv_heads=1)
    q[:, :, 7] = math.nan
    q[:, :, 130, 0] = math.inf
    out = emulate(q, k, v)
    spoilt = [7, 130]
    others = [i for i in range(200) if i not in spoilt]
    assert out[:, :, spoilt].isnan().all()
    check(out[:, :, others], q[:, :, others], k, v)


@settings(max_examples=25)
@given(
    dtype=st.sampled_from(list(ROUNDING)),
    batch=st.integers(1, 2),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 2),
    q_len=st.integers(1, 270),
    k_len=st.integers(1, 400),
    dim=st.integers(1, 16).map(lambda n: 8 * n),
    is_causal=st.booleans(),
    share=st.none() | st.floats(0, 1),
    padding=st.sampled_from([0, 8, 24]),
    seed=st.integers(0, 99),
)
def test_random_calls(emulate, dtype, batch, kv_heads, group, q_len, k_len, dim, is_causal, share, padding, seed):
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(batch, n, h, dim + padding, generator=generator).to(dtype).transpose(1, 2)[..., padding:]
        for n, h in ((q_len, kv_heads * group), (k_len, kv_heads), (k_len, kv_heads))
    )
    mask = None if share is None else torch.rand(q_len, k_len, generator=generator) < share
    out = emulate(q, k, v, None if mask is None else table(mask), is_causal)
    check(out, q, k, v, mask, is_causal)
