"""Masks against the float64 reference: kinds, broadcast forms, rows without keys, tiles that are skipped."""

from __future__ import annotations

import math

import pytest
import torch
from fused_attention import fused_attention
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.compiler

# The first example may wait for a compile.
many = settings(max_examples=150)

BATCH, HEADS, Q_LEN, K_LEN = 2, 3, 130, 150
SHAPES = [
    (BATCH, HEADS, Q_LEN, K_LEN),
    (BATCH, 1, 1, K_LEN),
    (BATCH, HEADS, Q_LEN, 1),
    (1, HEADS, 1, 1),
    (BATCH, 1, Q_LEN, K_LEN),
    (HEADS, Q_LEN, K_LEN),
    (Q_LEN, K_LEN),
    (K_LEN,),
    (),
]


def tensors(dtype=torch.float32, seed=0, q_len=Q_LEN, k_len=K_LEN, dim=24):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(BATCH, HEADS, length, dim, generator=generator).to(dtype) for length in (q_len, k_len, k_len)]


def bools(shape, seed=1, density=0.6):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < density


def additive(shape, dtype=torch.float32, seed=1):
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return bias.masked_fill(~bools(shape, seed), -math.inf).to(dtype)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("make", [bools, additive])
def test_broadcast_forms(assert_matches, make, shape, is_causal):
    assert_matches(*tensors(), make(shape), is_causal=is_causal)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mask_dtype", [torch.bool, torch.float32, None], ids=str)
def test_sixteen_bit_dtypes(assert_matches, dtype, mask_dtype):
    shape = (Q_LEN, K_LEN)
    mask = bools(shape) if mask_dtype == torch.bool else additive(shape, mask_dtype or dtype)
    assert_matches(*tensors(dtype), mask)


@pytest.mark.parametrize("make", [bools, additive])
def test_transposed_and_sliced_masks(assert_matches, make):
    assert_matches(*tensors(), make((K_LEN, Q_LEN)).t())
    assert_matches(*tensors(), make((Q_LEN * 2, K_LEN * 3))[::2, ::3])


@pytest.mark.parametrize("make", [bools, additive])
def test_rows_without_keys_are_zero(assert_matches, make):
    mask = make((Q_LEN, K_LEN))
    empty = [0, 5, 64, 129]
    mask[empty] = False if mask.dtype == torch.bool else -math.inf
    out = assert_matches(*tensors(), mask)
    assert not out[:, :, empty].any()
    assert out[:, :, 6].all()


def test_first_keys_masked_out(assert_matches):
    """A row whose first tiles hold nothing must forget them."""
    mask = torch.zeros(Q_LEN, K_LEN, dtype=torch.bool)
    mask[:, 140:] = True
    assert_matches(*tensors(), mask)
    assert_matches(*tensors(), torch.zeros(Q_LEN, K_LEN).masked_fill(~mask, -math.inf))


def test_lowest_finite_bias_is_not_minus_infinity(assert_matches):
    """Many models write torch.finfo.min for "masked": a row of nothing else is an average, as in torch."""
    mask = torch.zeros(Q_LEN, K_LEN)
    mask[7] = torch.finfo(torch.float32).min
    out = assert_matches(*tensors(), mask)
    assert out[:, :, 7].all()


@pytest.mark.parametrize("width", [0, 1, 9, 70])
def test_window(assert_matches, width):
    row, key = torch.arange(Q_LEN), torch.arange(K_LEN)
    assert_matches(*tensors(), (row[:, None] - key).abs() <= width)


def test_padding_and_causal_combine(assert_matches):
    lengths = torch.tensor([3, 149])
    mask = (torch.arange(K_LEN) < lengths[:, None])[:, None, None, :]
    assert_matches(*tensors(), mask, is_causal=True)


def test_any_nonzero_byte_is_true(assert_matches):
    mask = bools((Q_LEN, K_LEN))
    bytes_ = torch.where(mask, torch.randint(1, 256, mask.shape), 0).to(torch.uint8)
    q, k, v = tensors()
    assert torch.equal(fused_attention(q, k, v, bytes_.view(torch.bool)), fused_attention(q, k, v, mask))


@many
@given(
    seed=st.integers(0, 2**32),
    dims=st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    density=st.sampled_from([0.0, 0.02, 0.5, 0.98, 1.0]),
    is_additive=st.booleans(),
    is_causal=st.booleans(),
    q_len=st.integers(1, 140),
    k_len=st.integers(1, 140),
)
def test_any_mask(assert_matches, seed, dims, density, is_additive, is_causal, q_len, k_len):
    sizes = (BATCH, HEADS, q_len, k_len)
    shape = tuple(size if kept else 1 for size, kept in zip(sizes, dims, strict=True))
    mask = bools(shape, seed, density)
    if is_additive:
        mask = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).masked_fill(~mask, -math.inf)
    assert_matches(*tensors(seed=seed, q_len=q_len, k_len=k_len), mask, is_causal=is_causal)
