"""Gradients against float64 autograd of the reference, and what autograd and torch.compile ask of them."""

from __future__ import annotations

import math

import pytest
import torch
from fused_attention import build, fused_attention, masks, reference
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.compiler

# The first example may wait for a compile.
many = settings(max_examples=60)

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def tensors(dtype=torch.float32, seed=0, batch=2, kv_heads=2, group=2, q_len=33, k_len=40, dim=16):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, kv_heads * group, q_len, dim), *[(batch, kv_heads, k_len, dim)] * 2]
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def assert_gradients(q, k, v, mask=None, **options):
    """Of every float argument, against the reference's. Rounded as their dtype is; sums are float32."""
    leaves = {"q": q, "k": k, "v": v, "mask": mask, "alibi_slopes": options.pop("alibi_slopes", None)}
    leaves = {
        name: t.detach().requires_grad_() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
        for name, t in leaves.items()
    }
    wanted = [name for name, t in leaves.items() if isinstance(t, torch.Tensor) and t.requires_grad]
    grad = torch.randn(q.shape, generator=torch.Generator().manual_seed(9)).to(q.dtype)
    found = torch.autograd.grad(fused_attention(**leaves, **options), [leaves[name] for name in wanted], grad)
    doubles = {name: t.detach().double().requires_grad_() if name in wanted else t for name, t in leaves.items()}
    exact = torch.autograd.grad(
        reference.attention(**doubles, **options), [doubles[name] for name in wanted], grad.double(), allow_unused=True
    )
    for name, one, right in zip(wanted, found, exact, strict=True):
        assert one.dtype == leaves[name].dtype and one.shape == leaves[name].shape
        right = torch.zeros_like(one, dtype=torch.float64) if right is None else right
        allowed = torch.finfo(one.dtype).eps * right.abs() + 2e-5 * (
            1 + float(right.abs().max() if right.numel() else 0)
        )
        assert bool(((one.double() - right).abs() <= allowed).all()), (name, float((one.double() - right).abs().max()))
    return dict(zip(wanted, found, strict=True))


def additive(shape, density=0.7, dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    mask = torch.randn(shape, generator=generator)
    return mask.masked_fill(torch.rand(shape, generator=generator) > density, -math.inf).to(dtype)


def bools(shape, density=0.7):
    return torch.rand(shape, generator=torch.Generator().manual_seed(4)) < density


MASKS = {
    "none": {},
    "causal": {"is_causal": True},
    "bool": {"mask": bools((33, 40))},
    "bool per batch": {"mask": bools((2, 1, 1, 40))},
    "bool and causal": {"mask": bools((2, 4, 33, 40)), "is_causal": True},
    "additive": {"mask": additive((2, 4, 33, 40))},
    "additive row": {"mask": additive((40,))},
    "additive column": {"mask": additive((4, 33, 1), density=1.0), "is_causal": True},
    "additive scalar": {"mask": torch.tensor(0.3)},
    "additive expanded": {"mask": additive((33, 40))[None].expand(4, -1, -1)},
    "scale": {"scale": -0.7},
    "alibi": {"alibi_slopes": torch.tensor([0.5, 0.25, 0.1, 0.0])},
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("options", MASKS.values(), ids=MASKS)
def test_against_the_reference(options, dtype):
    assert_gradients(*tensors(dtype), **options)


STRUCTURED = [
    masks.SlidingWindow(5),
    masks.Strided(6),
    masks.Causal() & masks.Padding([40, 7]),
    masks.Prefix([3, 0]) | masks.GlobalTokens([11]),
    masks.Dense(bools((2, 1, 33, 40))) & ~masks.SlidingWindow(2),
]


@pytest.mark.parametrize("mask", STRUCTURED, ids=repr)
def test_masks_as_structure(mask):
    assert_gradients(*tensors(), mask)
    assert_gradients(*tensors(torch.bfloat16), mask, is_causal=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_an_additive_mask_in_the_dtype_of_q(dtype):
    assert_gradients(*tensors(dtype), mask=additive((1, 4, 33, 40), dtype=dtype))


@many
@given(
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from(DTYPES),
    batch=st.integers(0, 3),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    q_len=st.integers(0, 200),
    k_len=st.integers(0, 200),
    dim=st.integers(1, 40),
    is_causal=st.booleans(),
    kept=st.none() | st.tuples(*[st.booleans()] * 4),
    is_additive=st.booleans(),
    density=st.sampled_from([0.0, 0.1, 0.9]),
    transposed=st.tuples(*[st.booleans()] * 3),
)
def test_any_shape(seed, dtype, is_causal, kept, is_additive, density, transposed, **sizes):
    inputs = tensors(dtype, seed, **sizes)
    inputs = [
        t.transpose(1, 2).contiguous().transpose(1, 2) if is_transposed else t
        for t, is_transposed in zip(inputs, transposed, strict=True)
    ]
    mask = None
    if kept is not None:
        whole = (sizes["batch"], sizes["kv_heads"] * sizes["group"], sizes["q_len"], sizes["k_len"])
        shape = [size if keep else 1 for size, keep in zip(whole, kept, strict=True)]
        mask = additive(shape, density) if is_additive else bools(shape, density)
    assert_gradients(*inputs, mask, is_causal=is_causal)


def test_more_scores_than_a_chunk_holds():
    """Rows, heads and batch elements are each cut."""
    assert_gradients(*tensors(batch=1, kv_heads=1, group=2, q_len=700, k_len=900, dim=4))
    assert_gradients(*tensors(batch=3, kv_heads=3, group=2, q_len=300, k_len=300, dim=4), is_causal=True)
    assert_gradients(*tensors(batch=5, kv_heads=2, group=1, q_len=250, k_len=260, dim=4), mask=additive((5, 1, 1, 260)))


@pytest.mark.parametrize("make", [bools, additive])
def test_rows_without_keys_give_nothing(make):
    mask = make((33, 40))
    mask[[0, 7, 32]] = False if mask.dtype == torch.bool else -math.inf
    mask[:, 5] = False if mask.dtype == torch.bool else -math.inf
    found = assert_gradients(*tensors(), mask=mask)
    assert not found["q"][:, :, [0, 7, 32]].any() and found["q"][:, :, 1].any()
    assert not found["k"][:, :, 5].any() and not found["v"][:, :, 5].any()


ROW, KEY = torch.arange(300)[:, None], torch.arange(310)
LENGTHS = torch.tensor([310, 150])
# Programs by hand, as structure.h defines them: [version, instructions, (op, a, b, c) ..., data].
STRUCTURES = {
    "band": ([1, 1, 1, -9, 5, 0], (KEY - ROW >= -9) & (KEY - ROW <= 5)),
    "padding or a key": (
        [1, 3, 9, 14, 2, 0, 5, 200, 201, 0, 14, 0, 0, 0, *LENGTHS.tolist()],
        (LENGTHS[:, None, None] > KEY + 0 * ROW) | (KEY == 200),
    ),
    "nothing for some rows": ([1, 1, 6, 130, 270, 0], (ROW >= 130) & (ROW < 270) & (KEY >= 0)),
}


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("program", "allowed"), STRUCTURES.values(), ids=STRUCTURES)
def test_structured_masks(program, allowed, is_causal):
    """The backward operator against itself with the same mask as a tensor."""
    build.load()
    q, k, v = tensors(q_len=300, k_len=310)
    structure = torch.tensor(program)
    allowed = allowed.view(-1, 1, 300, 310)
    grad = torch.randn(q.shape, generator=torch.Generator().manual_seed(2))
    wanted = [True, True, True, False, False]
    found = torch.ops.fused_attention.backward(grad, wanted, q, k, v, structure=structure, is_causal=is_causal)
    expected = torch.ops.fused_attention.backward(grad, wanted, q, k, v, allowed, is_causal=is_causal)
    for one, right in zip(found[:3], expected[:3], strict=True):
        torch.testing.assert_close(one, right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", MASKS.values(), ids=MASKS)
def test_opcheck(options):
    build.load()
    leaves = [t.requires_grad_() for t in tensors()]
    options = {
        name: t.clone().requires_grad_() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
        for name, t in options.items()
    }
    torch.library.opcheck(torch.ops.fused_attention.forward.default, tuple(leaves), options)


def test_opcheck_of_the_backward_operator():
    build.load()
    q, k, v = tensors()
    for wanted in ([True] * 3 + [False] * 2, [False, True, False, False, False]):
        arguments = (torch.ones_like(q), wanted, q, k, v)
        torch.library.opcheck(torch.ops.fused_attention.backward.default, arguments)


@pytest.mark.parametrize(
    ("grad", "message"),
    [
        (torch.zeros(2, 4, 33, 8), "grad has shape [2, 4, 33, 8] and q has [2, 4, 33, 16]; they must be the same"),
        (torch.zeros(2, 4, 33, 16).half(), "grad has dtype torch.float16 and q has torch.float32"),
    ],
)
def test_the_backward_operator_checks_its_gradient(grad, message):
    build.load()
    with pytest.raises((ValueError, TypeError)) as caught:
        torch.ops.fused_attention.backward(grad, [True] * 3 + [False] * 2, *tensors())
    assert message in str(caught.value)
