"""Structured masks in calls of the kernel, eager and compiled: against float64, and without a graph break."""

from __future__ import annotations

import pytest
import torch
from fused_attention import build, fused_attention, reference
from fused_attention.masks import (
    BigBird,
    Causal,
    Dense,
    DilatedWindow,
    Documents,
    Fixed,
    GlobalTokens,
    Longformer,
    Padding,
    Prefix,
    SlidingWindow,
    Strided,
)

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module", autouse=True)
def kernels():
    build.load()


ATTENDED = [
    Causal(),
    SlidingWindow(9, 20),
    DilatedWindow(4, 9),
    Strided(),
    ~Strided(12),
    Strided(7) | ~Strided(5),
    Fixed(),
    Longformer(30, [3, 77]),
    BigBird(16, 1),
    Padding([5, 150], [180, 7]),
    Prefix([7, 0]),
    Documents(lengths=[100, 1, 60]),
    Documents(torch.arange(201) % 3) & Causal(),
    Causal() & Dense(torch.rand(2, 1, 201, 170, generator=torch.Generator().manual_seed(0)) < 0.5) & Padding(140),
    (Causal() & ~DilatedWindow(9, 2)) | Padding([3, 4]),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mask", ATTENDED, ids=repr)
def test_attention(assert_close, mask, dtype):
    """What the operator makes of a mask is what its elements say, and zero for rows that see nothing."""
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, 3, length, 40, generator=generator).to(dtype) for length in (201, 170, 170))
    elements = mask.elements(201, 170)
    expected = reference.attention(q, k, v, elements)
    assert_close(fused_attention(q, k, v, mask), expected, v)
    assert_close(fused_attention(q, k, v, mask, is_causal=True), reference.attention(q, k, v, elements, True), v)


def test_another_batch_is_refused():
    q = torch.randn(3, 1, 9, 8)
    with pytest.raises(ValueError, match="made for a batch of 2, and the call's is 3"):
        fused_attention(q, q, q, Padding([4, 5]))


def attended(x, mask):
    structure, tensor = mask.lower(x.shape[0], x.shape[0])
    elements = torch.ones(1, 1, 1, 1, dtype=torch.bool) if tensor is None else tensor
    if structure is not None:
        elements = elements & torch.ops.fused_attention.mask_elements(structure, mask.batch, x.shape[0], x.shape[0])
    return elements.to(x.dtype) * x


@pytest.mark.parametrize(
    ("make", "compiles"),
    [
        # Other masks of the same kind: their programs are inputs of the one graph.
        (lambda n: SlidingWindow(n) & Causal(), 1),
        (lambda n: Padding([n, 7]) | GlobalTokens(1), 1),
        (lambda n: Dense(torch.ones(9, 9).tril(n).bool()), 1),
        # The first meeting of a length is traced, too.
        (lambda n: Strided(), 2),
        (lambda n: ~Dense(torch.ones(9, 9).tril(n).bool()), 2),
        (lambda n: BigBird(2, 1, seed=n), None),
    ],
)
def test_in_a_compiled_function(make, compiles):
    torch._dynamo.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(attended, fullgraph=True, backend=backend)
    for n in (1, 2, 3):
        mask = make(n)
        for _ in range(2):
            x = torch.ones(9)
            assert torch.equal(compiled(x, mask), attended(x, make(n)))
    assert compiles is None or len(graphs) == compiles


@pytest.mark.parametrize("mask", [Causal(), Strided(), BigBird(2)], ids=repr)
def test_lengths_that_change_in_a_compiled_function(mask):
    torch._dynamo.reset()
    compiled = torch.compile(attended, fullgraph=True, backend="eager")
    for length in (5, 6, 7, 9, 5):
        x = torch.ones(length)
        assert torch.equal(compiled(x, mask), attended(x, mask))
