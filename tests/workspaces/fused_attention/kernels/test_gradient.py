"""Gradients against float64 autograd of the reference, and what autograd and torch.compile require of them."""

from __future__ import annotations

import math

import pytest
import torch
from fused_attention import fused_attention, masks, reference
from fused_attention.mask_program import assemble, band, either, key_below, key_range, row_range
from hypothesis import given, settings
from hypothesis import strategies as st

many = settings(max_examples=40)
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(scope="session")
def assert_gradients():
    """Compares the gradients of all float arguments with the reference's, within rounding and float32's sums."""

    def check(q, k, v, mask=None, constants=None, **options):
        options = {"q": q, "k": k, "v": v, "mask": mask, **options}
        leaves = {
            name: value.detach().requires_grad_()
            for name, value in options.items()
            if isinstance(value, torch.Tensor) and value.is_floating_point()
        }
        options |= constants or {}
        doubles = {name: leaf.detach().double().requires_grad_() for name, leaf in leaves.items()}
        grad = torch.randn(q.shape, generator=torch.Generator().manual_seed(9)).to(q.dtype)
        ours = torch.autograd.grad(fused_attention(**options | leaves), [*leaves.values()], grad)
        out = reference.attention(**options | doubles)
        exact = torch.autograd.grad(out, [*doubles.values()], grad.double(), materialize_grads=True)
        for (name, leaf), gradient, right in zip(leaves.items(), ours, exact, strict=True):
            assert (gradient.dtype, gradient.shape) == (leaf.dtype, leaf.shape)
            largest = float(right.abs().max()) if right.numel() else 0
            eps = torch.finfo(leaf.dtype).eps
            # The result is rounded before its product with its gradient, and bfloat16 weights before theirs.
            allowed = eps * right.abs() + max(2e-5, eps) * (1 + largest)
            error = (gradient.double() - right).abs()
            assert bool((error <= allowed).all()), (name, float(error.max()))
        return dict(zip(leaves, ours, strict=True))

    return check


def additive(shape, density=0.7):
    generator = torch.Generator().manual_seed(3)
    mask = torch.randn(shape, generator=generator)
    return mask.masked_fill(torch.rand(shape, generator=generator) > density, -math.inf)


def bools(shape, density=0.7):
    return torch.rand(shape, generator=torch.Generator().manual_seed(4)) < density


LENGTHS = {"cu_seqlens": torch.tensor([0, 5, 5, 33]).int(), "cu_seqlens_k": torch.tensor([0, 9, 16, 40]).int()}
CALLS = {
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
    "additive in the dtype of q": {"mask": additive((1, 4, 33, 40))},
    "scale": {"scale": -0.7},
    "alibi": {"alibi_slopes": torch.tensor([0.5, 0.25, 0.1, 0.0])},
    "window": {"mask": masks.SlidingWindow(5)},
    "strided and causal": {"mask": masks.Strided(6), "is_causal": True},
    "causal and padding": {"mask": masks.Causal() & masks.Padding([40, 7])},
    "prefix or tokens": {"mask": masks.Prefix([3, 0]) | masks.GlobalTokens([11])},
    "dense and structure": {"mask": masks.Dense(bools((2, 1, 33, 40))) & ~masks.SlidingWindow(2), "is_causal": True},
    "packed": LENGTHS,
    "packed, additive": {
        **LENGTHS,
        **{"max_seqlen": 28, "max_seqlen_k": 24, "mask": additive((3, 4, 28, 24), density=1.0), "is_causal": True},
    },
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_against_the_reference(assert_gradients, tensors, name, dtype):
    options = CALLS[name]
    if name == "additive in the dtype of q":
        options = {"mask": options["mask"].to(dtype)}
    assert_gradients(*tensors(dtype, batch=1 if "cu_seqlens" in options else 2, kv_heads=2), **options)


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
    make=st.sampled_from([bools, additive]),
    density=st.sampled_from([0.0, 0.1, 0.9]),
    transposed=st.tuples(*[st.booleans()] * 3),
)
def test_any_shape(
    assert_gradients, tensors, seed, dtype, kv_heads, group, is_causal, kept, make, density, transposed, **sizes
):
    inputs = [
        t.transpose(1, 2).contiguous().transpose(1, 2) if is_transposed else t
        for t, is_transposed in zip(
            tensors(dtype, seed=seed, heads=kv_heads * group, kv_heads=kv_heads, **sizes), transposed, strict=True
        )
    ]
    mask = None
    if kept is not None:
        scores = (sizes["batch"], kv_heads * group, sizes["q_len"], sizes["k_len"])
        mask = make([size if is_kept else 1 for size, is_kept in zip(scores, kept, strict=True)], density)
    assert_gradients(*inputs, mask, is_causal=is_causal)


def blocks(size):
    """Tokens of the same block, of 190 rows and 212 keys."""
    return (torch.arange(190)[:, None] // size) == (torch.arange(212) // size)


PANELS = {
    "none": None,
    "blocks of 16": blocks(16),
    "blocks of 32": blocks(32),
    "blocks of 64": blocks(64),
    "narrow window": masks.SlidingWindow(3),
    "wide window": masks.SlidingWindow(90),
    "lists": masks.Strided(6),
    "random": bools((190, 212), 0.9),
    "sparse": bools((190, 212), 0.02),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("slopes", [None, torch.tensor([0.5, 0.25, 0.1, 0.0])], ids=["no bias", "bias"])
@pytest.mark.parametrize("mask", PANELS.values(), ids=PANELS)
def test_panels_of_all_sizes(assert_gradients, assert_matches, threads, tensors, mask, slopes, dtype):
    """Three threads share heads. The bias is constant, for a bias with a gradient has another backward pass."""
    torch.set_num_threads(3)
    inputs = tensors(dtype, batch=1, kv_heads=2, q_len=190, k_len=212, dim=80)
    assert_gradients(*inputs, mask, constants={"alibi_slopes": slopes})
    assert_matches(*inputs, mask, alibi_slopes=slopes)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [17, 40, 64, 96])
def test_head_dimensions(assert_gradients, tensors, dtype, dim):
    constants = {"mask": additive((190, 212))}
    assert_gradients(*tensors(dtype, kv_heads=2, q_len=190, k_len=212, dim=dim), constants=constants)


def test_more_scores_than_a_chunk_holds(assert_gradients, tensors):
    """Rows, heads and batch elements are each cut."""
    assert_gradients(*tensors(batch=1, heads=2, kv_heads=1, q_len=700, k_len=900, dim=4))
    assert_gradients(*tensors(batch=3, heads=6, kv_heads=3, q_len=300, k_len=300, dim=4), is_causal=True)
    assert_gradients(*tensors(batch=5, heads=2, q_len=250, k_len=260, dim=4), additive((5, 1, 1, 260)))


@pytest.mark.parametrize("make", [bools, additive])
def test_rows_without_keys_give_nothing(assert_gradients, tensors, make):
    mask = make((33, 40))
    mask[[0, 7, 32]] = False if mask.dtype == torch.bool else -math.inf
    mask[:, 5] = False if mask.dtype == torch.bool else -math.inf
    gradients = assert_gradients(*tensors(), mask)
    assert not gradients["q"][:, :, [0, 7, 32]].any() and gradients["q"][:, :, 1].any()
    assert not gradients["k"][:, :, 5].any() and not gradients["v"][:, :, 5].any()


ROW, KEY = torch.arange(300)[:, None], torch.arange(310)
SHORTER = torch.tensor([310, 150])[:, None, None]
STRUCTURES = {
    "band": (band(-9, 5), (KEY - ROW >= -9) & (KEY - ROW <= 5)),
    "padding or a key": (either(key_below((310, 150)), key_range(200, 201)), (SHORTER > KEY + 0 * ROW) | (KEY == 200)),
    "nothing for some rows": (row_range(130, 270), (ROW >= 130) & (ROW < 270) & (KEY >= 0)),
}


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("program", "allowed"), STRUCTURES.values(), ids=STRUCTURES)
def test_structured_masks_in_several_chunks(extension, tensors, program, allowed, is_causal):
    """The backward operator against itself with the same mask as a tensor."""
    q, k, v = tensors(q_len=300, k_len=310)
    grad = torch.randn(q.shape, generator=torch.Generator().manual_seed(2))
    arguments = (grad, [True] * 3 + [False] * 2, None, None, q, k, v)
    backward = torch.ops.fused_attention.backward
    structured = backward(*arguments, structure=assemble(program), is_causal=is_causal)
    dense = backward(*arguments, allowed.view(-1, 1, 300, 310), is_causal=is_causal)
    for gradient, right in zip(structured[:3], dense[:3], strict=True):
        torch.testing.assert_close(gradient, right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("grad", "message"),
    [
        (torch.zeros(2, 4, 33, 8), "grad has shape [2, 4, 33, 8] and q has [2, 4, 33, 16]; they must be the same"),
        (torch.zeros(2, 4, 33, 16).half(), "grad has dtype torch.float16 and q has torch.float32"),
    ],
)
def test_the_backward_operator_checks_its_gradient(extension, tensors, grad, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        torch.ops.fused_attention.backward(grad, [True] * 3 + [False] * 2, None, None, *tensors())
    assert message in str(caught.value)


def test_only_the_requested_gradients_are_computed(tensors):
    q, k, v = tensors()
    k.requires_grad_()
    fused_attention(q, k, v).sum().backward()
    assert q.grad is None and v.grad is None and k.grad.shape == k.shape
    gradients = torch.ops.fused_attention.backward(q, [False, False, True, False, False], None, None, q, k.detach(), v)
    assert [t.numel() for t in gradients] == [0, 0, v.numel(), 0, 0]


@pytest.mark.filterwarnings("ignore:Input .* is not a double precision")
def test_gradcheck(tensors):
    inputs = [t.requires_grad_() for t in tensors(kv_heads=2, q_len=5, k_len=6, dim=3)]
    mask = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(1)).requires_grad_()
    slopes = torch.tensor([0.5, 0.25, 0.1, 0.4]).requires_grad_()

    def attention(q, k, v, mask, slopes):
        return fused_attention(q, k, v, mask, is_causal=True, alibi_slopes=slopes)

    # Central differences in float32: 1e-2 balances their truncation and the rounding of the result.
    assert torch.autograd.gradcheck(attention, (*inputs, mask, slopes), eps=1e-2, atol=3e-3, rtol=1e-2, nondet_tol=0.0)


def test_the_same_bits_from_run_to_run_in_the_memory_order_of_the_inputs(tensors):
    q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in tensors(batch=3, q_len=300, k_len=300, dim=32))

    def run():
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        return torch.autograd.grad(fused_attention(*leaves, is_causal=True).square().sum(), leaves)

    first, again = run(), run()
    assert all(map(torch.equal, first, again))
    assert [t.stride() for t in first] == [t.stride() for t in (q, k, v)]


def test_a_second_derivative_is_refused_and_create_graph_alone_is_not(tensors):
    q, k, v = (t.requires_grad_() for t in tensors())
    (first,) = torch.autograd.grad(fused_attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="fused_attention has no second derivatives"):
        first.sum().backward()


def test_a_forward_mode_derivative_is_refused(tensors):
    q, k, v = tensors()
    with torch.autograd.forward_ad.dual_level():
        q = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
        with pytest.raises(RuntimeError, match="q has a forward-mode derivative"):
            fused_attention(q, k, v)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_grad_mode_nothing_is_recorded(tensors, context):
    q, k, v = (t.requires_grad_() for t in tensors())
    expected = fused_attention(q, k, v)
    assert expected.requires_grad
    with context():
        out = fused_attention(q, k, v)
    assert not out.requires_grad and torch.equal(out, expected)


def test_an_input_changed_before_the_backward_pass_is_noticed(tensors):
    q, k, v = (t.requires_grad_() for t in tensors())
    doubled = v * 2
    out = fused_attention(q, k, doubled)
    doubled.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_training_step_compiles_without_a_graph_break(extension, backend):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(16, 48, generator=generator)
    x = torch.randn(2, 9, 16, generator=generator)

    def loss(x, weight):
        q, k, v = (x @ weight).view(2, 9, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return fused_attention(q, k, v, is_causal=True).square().mean()

    def step(function):
        leaf = weight.clone().requires_grad_()
        function(x, leaf).backward()
        return leaf.grad

    torch.testing.assert_close(step(torch.compile(loss, backend=backend, fullgraph=True)), step(loss))


def test_memory_does_not_grow_with_the_number_of_scores(python):
    code = """
import resource, torch
from fused_attention import fused_attention
def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def run(seq):
    q, k, v = (torch.randn(1, 4, seq, 8).requires_grad_() for _ in range(3))
    fused_attention(q, k, v).sum().backward()
run(512)
before = megabytes()
run(3072)
print(megabytes() - before)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    # One array of the scores is 151 MB; inputs, gradients and their float32 sums are 5.
    assert float(done.stdout) < 48
