"""Values against the float64 reference: shapes, dtypes, grouped heads, masks as tensors, scales, extremes."""

from __future__ import annotations

import math

import pytest
import torch
from fused_attention import fused_attention
from hypothesis import given, settings
from hypothesis import strategies as st

many = settings(max_examples=60)
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
CAUSAL = pytest.mark.parametrize("is_causal", [False, True])
SHAPES = [
    *({"q_len": length, "k_len": length, "dim": 64} for length in (1, 15, 16, 17, 63, 64, 65, 127, 200)),
    *({"k_len": 70, "dim": dim} for dim in (1, 2, 5, 6, 7, 31, 40, 64, 80, 96, 128, 160, 255, 256)),
    *({"q_len": q, "k_len": k} for q, k in ((1, 200), (200, 1), (65, 127), (127, 65), (64, 192))),
    *({"heads": heads, "kv_heads": kv_heads} for heads, kv_heads in ((4, 1), (6, 2), (12, 4), (5, 5))),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@CAUSAL
def test_shapes(assert_matches, tensors, shape, dtype, is_causal):
    assert_matches(*tensors(dtype, **{"heads": 2, **shape}), is_causal=is_causal)


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
def test_any_shape(assert_matches, tensors, seed, dtype, kv_heads, groups, is_causal, **sizes):
    assert_matches(*tensors(dtype, seed=seed, heads=kv_heads * groups, kv_heads=kv_heads, **sizes), is_causal=is_causal)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [40, 64, 256])
@pytest.mark.parametrize("q_len", [1, 2])
@pytest.mark.parametrize("kind", ["none", "bool", "float", "alibi", "sparse"])
def test_few_new_tokens_against_many_keys(assert_matches, tensors, dtype, dim, q_len, kind):
    """More keys than a chunk, and not a whole number of vectors."""
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
    inputs = tensors(dtype, seed=dim, kv_heads=2, q_len=q_len, k_len=413, dim=dim)
    assert_matches(*inputs, mask, alibi_slopes=slopes)


def test_causal_is_torchs_top_left(assert_close, tensors):
    q, k, v = tensors(q_len=40, k_len=90)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(fused_attention(q, k, v, is_causal=True), expected.double(), v)


def test_default_scale_is_by_head_dimension_not_length(tensors):
    q, k, v = tensors(q_len=9, dim=64)
    assert torch.equal(fused_attention(q, k, v), fused_attention(q, k, v, scale=1 / 8))


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4)], ids=str)
def test_empty_query_gives_empty_output(shape):
    k = torch.ones(shape[0], shape[1], 5, 4)
    assert fused_attention(torch.empty(shape), k, k).shape == shape


def test_no_keys_give_zeros():
    out = fused_attention(torch.ones(1, 2, 3, 4), torch.empty(1, 2, 0, 4), torch.empty(1, 2, 0, 4))
    assert torch.equal(out, torch.zeros(1, 2, 3, 4))


@pytest.mark.parametrize(
    ("q_factor", "v_factor", "scale", "slack"),
    [
        *((1, 1, scale, 2e-5) for scale in (0.0, 1.0, -0.5, 3.7)),
        (1e-20, 1, None, 5e-6),
        # Scores beyond 1e8 choose one key each; none may overflow on the way there.
        (1e4, 1, None, 1e-2),
        (1e15, 1, None, 5e-6),
        (1, 1e-30, None, 5e-6),
        (1, 1e36, None, 5e-6),
    ],
)
def test_scales_and_extremes(assert_matches, tensors, q_factor, v_factor, scale, slack):
    q, k, v = tensors(q_len=70, k_len=70)
    assert_matches(q * q_factor, k, v * v_factor, scale=scale, slack=slack)


@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("q_len", [2, 70])
def test_nan_and_infinity_reach_the_output_as_in_torch(tensors, name, value, q_len):
    arguments = dict(zip("qkv", tensors(q_len=q_len, k_len=70), strict=True))
    arguments[name][0, 1, 1, 2] = value
    out = fused_attention(**arguments)
    q, k, v = arguments.values()
    expected = torch.softmax(q @ k.transpose(-1, -2) / 4, dim=-1) @ v
    assert torch.equal(torch.isnan(out), torch.isnan(expected))
    finite = torch.isfinite(expected)
    torch.testing.assert_close(out[finite], expected[finite])


BATCH, HEADS, Q_LEN, K_LEN = SIZES = (2, 3, 130, 150)
MASKED = {"heads": HEADS, "q_len": Q_LEN, "k_len": K_LEN, "dim": 24}
BROADCAST = [
    SIZES,
    (BATCH, 1, 1, K_LEN),
    (BATCH, HEADS, Q_LEN, 1),
    (1, HEADS, 1, 1),
    (BATCH, 1, Q_LEN, K_LEN),
    (HEADS, Q_LEN, K_LEN),
    (Q_LEN, K_LEN),
    (K_LEN,),
    (),
]


def bools(shape, seed=1, density=0.6):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < density


def additive(shape, seed=1, density=0.6):
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return bias.masked_fill(~bools(shape, seed, density), -math.inf)


MAKE = pytest.mark.parametrize("make", [bools, additive])
ROW, KEY = torch.arange(Q_LEN)[:, None], torch.arange(K_LEN)
FORMS = {
    **{f"window of {width}": (ROW - KEY).abs() <= width for width in (0, 1, 9, 70)},
    # A row whose first tiles hold nothing must forget them.
    "only late keys": (KEY >= 140).expand(Q_LEN, -1),
    "only late keys, added": torch.where(KEY >= 140, 0.0, -math.inf).expand(Q_LEN, -1),
    "padding": (torch.tensor([3, 149])[:, None] > KEY)[:, None, None, :],
    **{f"transposed {make.__name__}": make((K_LEN, Q_LEN)).t() for make in (bools, additive)},
    **{f"sliced {make.__name__}": make((Q_LEN * 2, K_LEN * 3))[::2, ::3] for make in (bools, additive)},
}


@CAUSAL
@pytest.mark.parametrize("shape", BROADCAST, ids=str)
@MAKE
def test_masks_are_broadcast(assert_matches, tensors, make, shape, is_causal):
    assert_matches(*tensors(**MASKED), make(shape), is_causal=is_causal)


@CAUSAL
@pytest.mark.parametrize("mask", FORMS.values(), ids=FORMS)
def test_forms_of_masks(assert_matches, tensors, mask, is_causal):
    assert_matches(*tensors(**MASKED), mask, is_causal=is_causal)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_masks_of_sixteen_bit_inputs(assert_matches, tensors, dtype):
    for mask in (bools(SIZES), additive(SIZES), additive(SIZES).to(dtype)):
        assert_matches(*tensors(dtype, **MASKED), mask)


@MAKE
def test_rows_without_keys_are_zero(assert_matches, tensors, make):
    mask = make((Q_LEN, K_LEN))
    empty = [0, 5, 64, 129]
    mask[empty] = False if mask.dtype == torch.bool else -math.inf
    out = assert_matches(*tensors(**MASKED), mask)
    assert not out[:, :, empty].any()
    assert out[:, :, 6].all()


def test_lowest_finite_bias_is_not_minus_infinity(assert_matches, tensors):
    """Many models write torch.finfo.min for "masked": a row of nothing else is an average, as in torch."""
    mask = torch.zeros(Q_LEN, K_LEN)
    mask[7] = torch.finfo(torch.float32).min
    assert assert_matches(*tensors(**MASKED), mask)[:, :, 7].all()


def test_any_nonzero_byte_is_true(tensors):
    mask = bools((Q_LEN, K_LEN))
    mask_bytes = torch.where(mask, torch.randint(1, 256, mask.shape), 0).to(torch.uint8)
    inputs = tensors(**MASKED)
    assert torch.equal(fused_attention(*inputs, mask_bytes.view(torch.bool)), fused_attention(*inputs, mask))


@many
@given(
    seed=st.integers(0, 2**32),
    kept=st.tuples(*[st.booleans()] * 4),
    density=st.sampled_from([0.0, 0.02, 0.5, 0.98, 1.0]),
    make=st.sampled_from([bools, additive]),
    is_causal=st.booleans(),
    q_len=st.integers(1, 140),
    k_len=st.integers(1, 140),
)
def test_any_mask(assert_matches, tensors, seed, kept, density, make, is_causal, q_len, k_len):
    sizes = zip((BATCH, HEADS, q_len, k_len), kept, strict=True)
    mask = make([size if is_kept else 1 for size, is_kept in sizes], seed, density)
    inputs = tensors(seed=seed, heads=HEADS, q_len=q_len, k_len=k_len, dim=24)
    assert_matches(*inputs, mask, is_causal=is_causal)
