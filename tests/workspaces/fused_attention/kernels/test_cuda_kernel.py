"""The CUDA kernels' arithmetic, by emulation on the CPU: every fragment layout, mask and shape, without a GPU."""

from __future__ import annotations

import ctypes
import itertools
import math

import numpy as np
import pytest
import torch
from fused_attention import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.kernel_calls import DTYPES, cuda_numbers

pytestmark = [pytest.mark.long, pytest.mark.compiler]


# Weights are rounded to the inputs' dtype before they meet the values, as in FlashAttention.
SLACK = {torch.float32: 5e-6, torch.bfloat16: 2**-8, torch.float16: 2**-11}

# Compute capability of the fragments (0: CUDA cores), and whether a warp takes 32 rows.
KERNELS = [(0, 0), (70, 1), (75, 0), (75, 1), (80, 0), (80, 1)]

BAND, ROWS, KEY_BELOW, OR, NOT = 1, 6, 9, 14, 15


def program(*instructions, data=()):
    """The tensor of structure.h; `data` follows the instructions."""
    begin = 2 + 4 * len(instructions)
    words = [1, len(instructions)]
    for op, a, b, c in instructions:
        words += [op, begin + a if op == KEY_BELOW else a, b, c]
    return np.array([*words, *data], dtype=np.int64)


@pytest.fixture(scope="session")
def library(compile_cpp):
    return compile_cpp("cuda_kernels.cpp")


@pytest.fixture(scope="session")
def emulate(library):
    """A call of one kernel, with asynchronous copies as late as they may be; `twice`: and as early as they may be, with
    threads in the other order and the same result bit by bit."""

    def run(
        kernel, q, k, v, mask=None, *, is_causal=False, scale=None, structure=None, alibi=None, cu=None, twice=False
    ):
        capability, tall = kernel
        cu_q, cu_k = (None, None) if cu is None else [torch.tensor(c, dtype=torch.int32) for c in cu]
        packed = {}
        if cu is not None:
            longest = [int((c[1:] - c[:-1]).max()) for c in (cu_q, cu_k)]
            packed = {"batch": len(cu_q) - 1, "lengths": longest}
        scale = ctypes.c_float(1 / math.sqrt(q.shape[3]) if scale is None else scale)
        results = []
        for mode in (3, 0) if twice else (3,):
            out = torch.full(q.shape, math.nan, dtype=q.dtype)
            numbers, expanded = cuda_numbers(q, k, v, out, mask, is_causal, **packed)
            addresses = [None if t is None else t.data_ptr() for t in (q, k, v, out, expanded)]
            addresses.append(None if structure is None else structure.ctypes.data)
            addresses += [None if t is None else t.data_ptr() for t in (cu_q, cu_k, alibi)]
            tensors = (ctypes.c_void_p * 9)(*addresses)
            if capability == 0:
                library.attend_simt(tensors, numbers, scale, mode)
            else:
                assert library.attend_mma(tensors, numbers, scale, capability, tall, mode) == 0
            results.append(out)
        assert torch.equal(results[0], results[-1]) or results[0].isnan().any()
        return results[0]

    return run


def dtypes_of(kernel):
    capability, _ = kernel
    return list(DTYPES) if capability == 0 else list(DTYPES)[1:] if capability == 80 else [torch.float16]


def tensors(dtype, batch=1, heads=2, kv_heads=None, q_len=70, k_len=70, dim=64):
    generator = torch.Generator().manual_seed(q_len + dim)
    shapes = ((heads, q_len), (kv_heads or heads, k_len), (kv_heads or heads, k_len))
    return [torch.randn(batch, h, n, dim, generator=generator).to(dtype) for h, n in shapes]


@pytest.fixture(scope="session")
def check(emulate, assert_close):
    """Compares a kernel with the float64 reference under the dense mask that the others come to."""

    def compare(kernel, q, k, v, mask=None, *, is_causal=False, scale=None, dense=None, **more):
        out = emulate(kernel, q, k, v, mask, is_causal=is_causal, scale=scale, **more)
        expected = reference.attention(q, k, v, mask if dense is None else dense, is_causal, scale)
        assert_close(out, expected, v, SLACK[q.dtype] + 5e-6)

    return compare


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_every_kernel_and_dtype(check, kernel):
    # 32 rows of more than 128 dimensions do not fit a warp's registers: there is no such kernel.
    for dim, dtype in itertools.product((1, 40, 64, 72, 128, 129, 256)[: 5 if kernel[1] else 7], dtypes_of(kernel)):
        check(kernel, *tensors(dtype, heads=1, q_len=35, k_len=67, dim=dim), twice=1)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize(("q_len", "k_len"), [(1, 130), (64, 64), (130, 65)])
def test_lengths_and_causal(check, kernel, q_len, k_len):
    q, k, v = tensors(dtypes_of(kernel)[0], heads=1, q_len=q_len, k_len=k_len)
    check(kernel, q, k, v)
    check(kernel, q, k, v, is_causal=True)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_grouped_heads_batches_and_strides(check, kernel):
    q, k, v = tensors(dtypes_of(kernel)[-1], batch=2, heads=6, kv_heads=2, q_len=20, k_len=160)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    check(kernel, q, k[:, :, ::2], v[:, :, 80:])
    # Rows that do not begin at 16 bytes are read element by element.
    check(kernel, q[..., 1:], k[:, :, :80, 1:], v[:, :, :80, :63])


@pytest.mark.parametrize("kernel", [(0, 0), (75, 0), (80, 0)], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 70, 70), (2, 1, 1, 70), (2, 2, 70, 1)], ids=str)
def test_additive_masks(check, kernel, shape):
    dtype = dtypes_of(kernel)[-1]
    q, k, v = tensors(dtype, batch=2)
    generator = torch.Generator().manual_seed(1)
    hidden = torch.rand(shape, generator=generator) < 0.4
    mask = torch.randn(shape, generator=generator).masked_fill(hidden, -math.inf)
    check(kernel, q, k, v, mask)
    check(kernel, q, k, v, mask.to(dtype), is_causal=True)


@pytest.mark.parametrize("kernel", [(0, 0), (70, 1), (80, 1)], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 150, 140), (2, 1, 1, 140), (2, 2, 150, 1), (2, 2, 150, 140)], ids=str)
def test_boolean_masks_are_classified_on_the_device(check, kernel, shape):
    q, k, v = tensors(dtypes_of(kernel)[0], batch=2, q_len=150, k_len=140, dim=40)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.4
    mask[..., :64, 64 if shape[-1] > 1 else 0 :] = False  # a tile to skip
    mask[..., 64:128, :64] = True  # and one that is full
    check(kernel, q, k, v, mask)
    check(kernel, q, k, v, mask, is_causal=True)


@pytest.mark.parametrize("tile", [(64, 64), (128, 128), (16, 192)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_classification_in_tiles_of_any_shape(library, tile, causal):
    q = torch.empty(2, 2, 200, 8)
    mask = torch.rand(2, 1, 200, 300, generator=torch.Generator().manual_seed(3)) > 0.5
    mask[:, :, :128, :192] = True
    mask[1] = False
    numbers, expanded = cuda_numbers(q, torch.empty(2, 2, 300, 8), q, q, mask, causal)
    seen = torch.zeros(2, 2, 200, 300, dtype=torch.bool)
    library.classified.restype = ctypes.c_int64
    tensors = (ctypes.c_void_p * 9)(None, None, None, None, expanded.data_ptr())
    full = library.classified(tensors, numbers, *tile, ctypes.c_void_p(seen.data_ptr()))
    assert torch.equal(seen, (expanded & torch.ones(200, 300, dtype=torch.bool).tril()) if causal else expanded)
    # Of the first batch, for each of its two heads.
    assert full == 2 * {(64, 64): 6, (128, 128): 1, (16, 192): 8}[tile] * (not causal) + 2 * causal * (tile == (64, 64))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_structured_masks(check, kernel):
    q, k, v = tensors(dtypes_of(kernel)[0], batch=2, heads=1, q_len=200, k_len=190)
    rows, keys = torch.arange(200)[:, None], torch.arange(190)
    window = program((BAND, -9, 70, 0))
    in_window = (keys - rows >= -9) & (keys - rows <= 70)
    check(kernel, q, k, v, structure=window, dense=in_window, twice=1)
    check(kernel, q, k, v, structure=window, dense=in_window, is_causal=True)
    lengths = program((KEY_BELOW, 0, 2, 0), (ROWS, 3, 5, 0), (OR, 0, 0, 0), data=(150, 0))
    dense = (keys < torch.tensor([150, 0]).view(2, 1, 1, 1)) | ((rows >= 3) & (rows < 5))
    check(kernel, q, k, v, structure=lengths, dense=dense)
    mask = torch.rand(2, 1, 200, 190, generator=torch.Generator().manual_seed(2)) > 0.5
    check(kernel, q, k, v, mask, structure=lengths, dense=dense & mask)
    if kernel in ((0, 0), (80, 0)):
        bias = torch.randn(1, 1, 1, 190)
        check(kernel, q, k, v, bias, structure=window, dense=bias.masked_fill(~in_window, -math.inf))


@pytest.mark.parametrize("kernel", [(0, 0), (75, 0), (80, 0)], ids=str)
def test_alibi(check, kernel):
    q, k, v = tensors(dtypes_of(kernel)[0], batch=2, heads=2, q_len=70, k_len=90)
    slopes = torch.tensor([0.5, 0.0625])
    distance = (torch.arange(90) - torch.arange(70)[:, None]).abs()
    check(kernel, q, k, v, alibi=slopes, dense=(-slopes.view(1, 2, 1, 1) * distance).double())


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences(emulate, assert_close, kernel, causal):
    dtype = dtypes_of(kernel)[0]
    cu_q, cu_k = [0, 70, 70, 75, 205], [0, 3, 20, 85, 230]
    q, k, v = tensors(dtype, heads=2, kv_heads=1, q_len=205, k_len=230)
    window = program((BAND, -40, 30, 0))
    for structure in (None, window):
        out = emulate(kernel, q, k, v, is_causal=causal, cu=(cu_q, cu_k), structure=structure, twice=int(causal))
        for i in range(4):
            part = [t[:, :, c[i] : c[i + 1]] for t, c in ((q, cu_q), (k, cu_k), (v, cu_k))]
            distance = torch.arange(part[1].shape[2]) - torch.arange(part[0].shape[2])[:, None]
            dense = None if structure is None else (distance >= -40) & (distance <= 30)
            expected = reference.attention(*part, dense, causal)
            assert_close(out[:, :, cu_q[i] : cu_q[i + 1]], expected, v, SLACK[dtype] + 5e-6)


@settings(max_examples=40)
@given(
    kernel=st.sampled_from(KERNELS),
    pick=st.integers(0, 2),
    heads=st.sampled_from([(1, 1), (2, 1), (4, 2)]),
    lengths=st.tuples(st.integers(1, 140), st.integers(1, 140)),
    dim=st.integers(1, 80),
    offset=st.integers(0, 8),
    band=st.tuples(st.integers(-150, 20), st.integers(-20, 150)),
    kind=st.sampled_from(["none", "causal", "band", "boolean", "both"]),
)
def test_random_calls(check, kernel, pick, heads, lengths, dim, offset, band, kind):
    dtypes = dtypes_of(kernel)
    q_len, k_len = lengths
    q, k, v = tensors(dtypes[pick % len(dtypes)], 1, *heads, q_len, k_len, dim + offset)
    q, k, v = q[..., offset:], k[..., offset:], v[..., :dim]
    distance = torch.arange(k_len) - torch.arange(q_len)[:, None]
    dense = torch.ones(q_len, k_len, dtype=torch.bool)
    mask = structure = None
    if kind in ("band", "both"):
        structure = program((BAND, *band, 0))
        dense = (distance >= band[0]) & (distance <= band[1])
    if kind in ("boolean", "both"):
        mask = torch.rand(1, heads[0], q_len, k_len, generator=torch.Generator().manual_seed(dim)) > 0.3
        dense = dense & mask
    check(kernel, q, k, v, mask, structure=structure, dense=dense, is_causal=kind == "causal")


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_rows_that_see_no_key_are_zero(emulate, kernel):
    q, k, v = tensors(dtypes_of(kernel)[0], k_len=100)
    mask = torch.ones(70, 100, dtype=torch.bool)
    mask[3] = mask[66] = mask[8:30, :64] = False
    out = emulate(kernel, q, k, v, mask)
    assert not out[:, :, [3, 66]].any() and out[:, :, 4].all()
    assert not emulate(kernel, q, k, v, structure=program((ROWS, 0, 1000, 0), (NOT, 0, 0, 0))).any()


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("scale", [-0.3, 0.0, 1e-30, 4.0])
def test_scales(check, kernel, scale):
    q, k, v = tensors(dtypes_of(kernel)[0], k_len=100)
    check(kernel, q, k, v, is_causal=True, scale=scale)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_nan_and_infinity(emulate, kernel):
    q, k, v = tensors(dtypes_of(kernel)[0], heads=1)
    q[0, 0, 3, 0] = math.nan
    k[0, 0, 65, 1] = math.inf
    out = emulate(kernel, q, k, v, is_causal=True)
    # Row 3 is NaN, and rows that see key 65 are NaN or its value alone; all others know nothing of either.
    assert out[0, 0, 3].isnan().all()
    assert out[0, 0, :3].isfinite().all() and out[0, 0, 4:65].isfinite().all()
    assert not out[0, 0, 65:].isfinite().all()


@pytest.mark.parametrize("kernel", [(0, 0), (80, 0), (80, 1)], ids=str)
def test_huge_and_tiny_scores(check, emulate, kernel):
    q, k, v = tensors(dtypes_of(kernel)[0], heads=1)
    check(kernel, q / 1024, k / 1024, v, scale=1.0)
    # Scores in the tens of thousands carry float32's own rounding, so that torch's error is the measure.
    q, k = q * 30, k * 30
    expected = reference.attention(q, k, v, scale=1.0)
    torchs = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)
    error, torchs_error = (
        (out.double() - expected).abs().max() for out in (emulate(kernel, q, k, v, scale=1.0), torchs)
    )
    assert error <= 2 * torchs_error + SLACK[q.dtype]
