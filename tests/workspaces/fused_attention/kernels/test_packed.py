"""Packed sequences of different lengths: each must come out as it does alone."""

from __future__ import annotations

import re

import pytest
import torch
from fused_attention import build, fused_attention, masks, reference
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.compiler

# The first example may wait for a compile.
many = settings(max_examples=60)

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def ends(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def packed(q_lengths, k_lengths=None, dtype=torch.float32, heads=4, kv_heads=2, dim=16):
    generator = torch.Generator().manual_seed(0)
    rows, keys = sum(q_lengths), sum(q_lengths if k_lengths is None else k_lengths)
    shapes = [(1, heads, rows, dim), *[(1, kv_heads, keys, dim)] * 2]
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


def one_by_one(q, k, v, q_lengths, k_lengths, **options):
    queries, keys, values = q.split(q_lengths, 2), k.split(k_lengths, 2), v.split(k_lengths, 2)
    return torch.cat([fused_attention(*one, **options) for one in zip(queries, keys, values, strict=True)], dim=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "lengths", [[70], [3, 64, 130, 1], [0, 5, 0, 0, 77, 0], [0, 0], [128, 128]], ids=lambda lengths: str(lengths)
)
def test_as_each_alone(assert_close, lengths, is_causal, dtype):
    q, k, v = packed(lengths, dtype=dtype)
    out = fused_attention(q, k, v, cu_seqlens=ends(lengths), is_causal=is_causal)
    torch.testing.assert_close(out, one_by_one(q, k, v, lengths, lengths, is_causal=is_causal))
    assert_close(out, reference.attention(q, k, v, cu_seqlens=ends(lengths), is_causal=is_causal), v)


@pytest.mark.parametrize("is_causal", [False, True])
def test_lengths_of_q_and_k_differ(assert_close, is_causal):
    q_lengths, k_lengths = [5, 0, 64, 100, 3], [9, 7, 0, 30, 150]
    q, k, v = packed(q_lengths, k_lengths)
    options = {"cu_seqlens": ends(q_lengths), "cu_seqlens_k": ends(k_lengths), "is_causal": is_causal}
    out = fused_attention(q, k, v, **options)
    assert_close(out, reference.attention(q, k, v, **options), v)
    assert not out[:, :, 5:69].any()  # queries without any key


@many
@given(
    lengths=st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), min_size=1, max_size=6),
    dtype=st.sampled_from(DTYPES),
    is_causal=st.booleans(),
    bound=st.sampled_from([0, 7]),
    slopes=st.booleans(),
    mask=st.sampled_from(["none", "bool", "additive"]),
)
def test_any_lengths(assert_close, lengths, dtype, is_causal, bound, slopes, mask):
    q_lengths, k_lengths = (list(side) for side in zip(*lengths, strict=True))
    longest = (max(q_lengths) + bound or 1, max(k_lengths) + bound or 1)
    q, k, v = packed(q_lengths, k_lengths, dtype)
    options = {"cu_seqlens": ends(q_lengths), "cu_seqlens_k": ends(k_lengths), "is_causal": is_causal}
    if bound or mask != "none":
        options.update(max_seqlen=longest[0], max_seqlen_k=longest[1])
    if slopes:
        options["alibi_slopes"] = torch.tensor([0.5, 0.25, 0.0, 1.0])
    tensor = None
    if mask != "none":
        tensor = torch.randn(len(lengths), 1, *longest, generator=torch.Generator().manual_seed(1))
        tensor = tensor > 0 if mask == "bool" else tensor
    out = fused_attention(q, k, v, tensor, **options)
    assert_close(out, reference.attention(q, k, v, tensor, **options), v, slack=1e-5)


def test_structured_masks_count_from_the_start_of_each_sequence(assert_close):
    lengths = [40, 0, 130, 7]
    q, k, v = packed(lengths)
    build.load()
    band = torch.tensor([1, 1, 1, -9, 5, 0])
    out = torch.ops.fused_attention.forward(q, k, v, structure=band, cu_seqlens_q=ends(lengths))
    row, key = torch.arange(130)[:, None], torch.arange(130)
    mask = (key - row >= -9) & (key - row <= 5)
    expected = reference.attention(q, k, v, mask, cu_seqlens=ends(lengths), max_seqlen=130)
    assert_close(out, expected, v)


@pytest.mark.parametrize("bound", [None, 150])
def test_masks_count_from_the_start_of_each_sequence(assert_close, bound):
    lengths = [40, 0, 130, 7]
    mask = masks.SlidingWindow(5) | (masks.GlobalTokens([3]) & masks.Padding([30, 0, 100, 7]))
    q, k, v = packed(lengths)
    options = {"cu_seqlens": ends(lengths), "max_seqlen": bound}
    out = fused_attention(q, k, v, mask, **options)
    assert_close(out, reference.attention(q, k, v, mask, **options), v)


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients(is_causal):
    q_lengths, k_lengths = [5, 0, 64, 100, 3], [9, 7, 0, 30, 150]
    options = {"cu_seqlens": ends(q_lengths), "cu_seqlens_k": ends(k_lengths), "is_causal": is_causal}
    options.update(max_seqlen=100, max_seqlen_k=150)
    mask = torch.randn(5, 4, 100, 150, generator=torch.Generator().manual_seed(1))
    leaves = [t.requires_grad_() for t in (*packed(q_lengths, k_lengths), mask)]
    doubles = [t.detach().double().requires_grad_() for t in leaves]
    grad = torch.randn(leaves[0].shape, generator=torch.Generator().manual_seed(2))
    found = torch.autograd.grad(fused_attention(*leaves, **options), leaves, grad)
    expected = torch.autograd.grad(reference.attention(*doubles, **options), doubles, grad.double())
    for one, right in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), right, atol=2e-5, rtol=2e-5)


def test_compiles_without_a_graph_break():
    lengths = [5, 20, 7]
    q, k, v = packed(lengths)
    fused_attention(q, k, v)

    def layer(q, k, v, cu_seqlens):
        return fused_attention(q * 2, k, v, cu_seqlens=cu_seqlens, max_seqlen=20) + 1

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(q, k, v, ends(lengths)), layer(q, k, v, ends(lengths)))


def test_opcheck():
    lengths = [5, 20, 0]
    arguments = tuple(t.requires_grad_() for t in packed(lengths))
    fused_attention(*arguments)
    options = {"cu_seqlens_q": ends(lengths), "cu_seqlens_k": ends(lengths), "max_seqlen_q": 20, "max_seqlen_k": 20}
    options["alibi_slopes"] = torch.zeros(4)
    torch.library.opcheck(torch.ops.fused_attention.forward.default, arguments, options)


Q = torch.zeros(1, 2, 12, 8)
WRONG = {
    "dtype": (
        {"cu_seqlens": torch.tensor([0, 12])},
        TypeError,
        "cu_seqlens has dtype torch.int64; it must be torch.int32",
    ),
    "shape": ({"cu_seqlens": ends([12])[None]}, ValueError, "cu_seqlens has shape [1, 2]; it must be [sequences + 1]"),
    "empty": ({"cu_seqlens": ends([])[:0]}, ValueError, "cu_seqlens has shape [0]"),
    "device": ({"cu_seqlens": ends([12]).to("meta")}, RuntimeError, "cu_seqlens is on meta and q on cpu"),
    "start": ({"cu_seqlens": ends([12]) + 1}, ValueError, "cu_seqlens begins with 1; it must begin with 0"),
    "falls": (
        {"cu_seqlens": torch.tensor([0, 9, 3, 12]).int()},
        ValueError,
        "cu_seqlens falls from 9 to 3 at element 2",
    ),
    "end": (
        {"cu_seqlens": ends([5])},
        ValueError,
        "cu_seqlens ends with 5; it must end with the number of packed rows, 12",
    ),
    "bound": (
        {"cu_seqlens": ends([2, 10]), "max_seqlen": 9},
        ValueError,
        "max_seqlen is 9 and the longest sequence of cu_seqlens has 10 rows; it must be at least as long",
    ),
    "negative bound": ({"cu_seqlens": ends([12]), "max_seqlen": -1}, ValueError, "max_seqlen is -1; it must not be"),
    "bound alone": ({"max_seqlen": 12}, ValueError, "max_seqlen is 12 without cu_seqlens; only packed sequences"),
    "of k alone": ({"cu_seqlens_k": ends([12])}, ValueError, "cu_seqlens_k is given without cu_seqlens (of q)"),
    "numbers": (
        {"cu_seqlens": ends([12]), "cu_seqlens_k": ends([6, 6])},
        ValueError,
        "cu_seqlens_k has 3 elements and cu_seqlens has 2; they must be as many",
    ),
    "mask without a bound": (
        {"cu_seqlens": ends([12]), "mask": torch.ones(12, 12, dtype=torch.bool)},
        ValueError,
        "mask is given with cu_seqlens and without max_seqlen",
    ),
    "slopes' shape": (
        {"alibi_slopes": torch.zeros(3)},
        ValueError,
        "alibi_slopes has shape [3]; it must be [heads] = [2]",
    ),
    "slopes' dtype": (
        {"alibi_slopes": torch.zeros(2).half()},
        TypeError,
        "alibi_slopes has dtype torch.float16; it must",
    ),
}


@pytest.mark.parametrize(("options", "error", "message"), WRONG.values(), ids=WRONG)
def test_wrong_arguments(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        fused_attention(Q, Q, Q, **options)


def test_wrong_shapes_of_packed_tensors():
    with pytest.raises(ValueError, match=r"q has batch 2 and cu_seqlens is given; packed sequences lie one after"):
        fused_attention(*[Q.expand(2, -1, -1, -1)] * 3, cu_seqlens=ends([12]))
    with pytest.raises(ValueError, match=r"k has 9 packed rows and q has 12; they must be as many unless cu_seqlens_k"):
        fused_attention(Q, Q[:, :, :9], Q[:, :, :9], cu_seqlens=ends([12]))


@pytest.mark.parametrize(
    ("structure", "error", "message"),
    [
        (torch.zeros(2, 3).long(), ValueError, "structure has 2 dimensions, shape [2, 3]; it must have one"),
        (torch.zeros(6), TypeError, "structure has dtype torch.float32; it must be torch.int64"),
        (torch.zeros(6).long(), ValueError, "structure"),
    ],
)
def test_wrong_structures(structure, error, message):
    fused_attention(Q, Q, Q)
    with pytest.raises(error, match=re.escape(message)):
        torch.ops.fused_attention.forward(Q, Q, Q, structure=structure)
