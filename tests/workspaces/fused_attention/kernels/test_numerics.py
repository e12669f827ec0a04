"""Values against the float64 reference: lengths, head dimensions, dtypes, grouped heads, scales, extremes."""

from __future__ import annotations

import math

import pytest
import torch
from fused_attention import fused_attention, reference
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.compiler

# The first example may wait for a compile.
many = settings(max_examples=150)

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
LENGTHS = [1, 15, 16, 17, 63, 64, 65, 127, 200]


def tensors(seed, dtype, batch=2, heads=2, kv_heads=None, q_len=17, k_len=None, dim=16):
    generator = torch.Generator().manual_seed(seed)
    kv_shape = (batch, kv_heads or heads, q_len if k_len is None else k_len, dim)
    shapes = ((batch, heads, q_len, dim), kv_shape, kv_shape)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seq", LENGTHS)
def test_sequence_lengths(assert_matches, dtype, seq):
    assert_matches(*tensors(seq, dtype, q_len=seq, dim=64))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [1, 2, 5, 6, 7, 31, 40, 64, 80, 96, 128, 160, 255, 256])
def test_head_dimensions(assert_matches, dtype, dim):
    assert_matches(*tensors(dim, dtype, q_len=33, k_len=70, dim=dim))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("q_len", "k_len"), [(1, 200), (200, 1), (65, 127), (127, 65), (64, 192)])
def test_query_and_key_lengths_differ(assert_matches, q_len, k_len, is_causal):
    assert_matches(*tensors(q_len, torch.float32, q_len=q_len, k_len=k_len), is_causal=is_causal)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [40, 64, 256])
@pytest.mark.parametrize("q_len", [1, 2])
@pytest.mark.parametrize("kind", ["none", "bool", "float", "alibi", "sparse"])
def test_few_new_tokens_against_many_keys(assert_close, dtype, dim, q_len, kind):
    """More keys than a chunk, and not a whole number of vectors."""
    q, k, v = tensors(dim, dtype, heads=4, kv_heads=2, q_len=q_len, k_len=413, dim=dim)
    generator = torch.Generator().manual_seed(q_len)
    mask = slopes = None
    if kind in ("bool", "sparse"):
        mask = torch.rand(2, 4, q_len, 413, generator=generator) < (0.5 if kind == "bool" else 0.02)
        mask[0, 1] = False  # rows that see no key
    elif kind == "float":
        mask = torch.randn(q_len, 413, generator=generator)
        mask[:, ::3] = -math.inf
    elif kind == "alibi":
        slopes = torch.rand(4, generator=generator)
    out = fused_attention(q, k, v, mask, alibi_slopes=slopes)
    assert_close(out, reference.attention(q, k, v, mask, alibi_slopes=slopes), v)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 1), (6, 2), (12, 4), (5, 5)])
def test_grouped_heads(assert_matches, heads, kv_heads):
    assert_matches(*tensors(heads, torch.float32, heads=heads, kv_heads=kv_heads))


@many
@given(
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from(DTYPES),
    batch=st.integers(1, 3),
    kv_heads=st.integers(1, 3),
    groups=st.integers(1, 3),
    q_len=st.integers(1, 140),
    k_len=st.integers(1, 140),
    dim=st.integers(1, 256),
    is_causal=st.booleans(),
)
def test_any_shape(assert_matches, seed, dtype, batch, kv_heads, groups, q_len, k_len, dim, is_causal):
    q, k, v = tensors(seed, dtype, batch, kv_heads * groups, kv_heads, q_len, k_len, dim)
    assert_matches(q, k, v, is_causal=is_causal)


def test_causal_is_torchs_top_left(assert_close):
    q, k, v = tensors(0, torch.float32, q_len=40, k_len=90)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(fused_attention(q, k, v, is_causal=True), expected.double(), v)


@pytest.mark.parametrize("scale", [0.0, 1.0, -0.5, 3.7])
def test_scale(assert_matches, scale):
    assert_matches(*tensors(1, torch.float32), scale=scale, slack=2e-5)


def test_default_scale_is_by_head_dimension_not_length():
    q, k, v = tensors(2, torch.float32, q_len=9, dim=64)
    assert torch.equal(fused_attention(q, k, v), fused_attention(q, k, v, scale=1 / 8))


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4)], ids=str)
def test_empty_query_gives_empty_output(shape):
    q = torch.empty(shape)
    k = torch.ones(shape[0], shape[1], 5, 4)
    assert fused_attention(q, k, k).shape == shape


def test_no_keys_give_zeros():
    out = fused_attention(torch.ones(1, 2, 3, 4), torch.empty(1, 2, 0, 4), torch.empty(1, 2, 0, 4))
    assert torch.equal(out, torch.zeros(1, 2, 3, 4))


@pytest.mark.parametrize("factor", [1e-20, 1e4, 1e15])
def test_tiny_and_huge_scores(assert_matches, factor):
    q, k, v = tensors(3, torch.float32, q_len=70)
    # Scores beyond 1e8 choose one key each; none may overflow on the way there.
    assert_matches(q * factor, k, v, slack=1e-2 if factor == 1e4 else 5e-6)


@pytest.mark.parametrize("factor", [1e-30, 1e36])
def test_tiny_and_huge_values(assert_matches, factor):
    q, k, v = tensors(4, torch.float32)
    assert_matches(q, k, v * factor)


@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("q_len", [2, 70])
def test_nan_and_infinity_reach_the_output_as_in_torch(name, value, q_len):
    arguments = dict(zip("qkv", tensors(5, torch.float32, q_len=q_len, k_len=70), strict=True))
    arguments[name][0, 1, 1, 2] = value
    out = fused_attention(**arguments)
    q, k, v = arguments.values()
    expected = torch.softmax(q @ k.transpose(-1, -2) / 4, dim=-1) @ v
    assert torch.equal(torch.isnan(out), torch.isnan(expected))
    finite = torch.isfinite(expected)
    torch.testing.assert_close(out[finite], expected[finite])
