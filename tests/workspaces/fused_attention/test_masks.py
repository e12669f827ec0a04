"""Structured masks: their definitions written out in torch, composition, tiles, calls, and masks as objects."""

from __future__ import annotations

import copy
import functools
import math
import pickle

import pytest
import torch
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
from hypothesis import given, settings
from hypothesis import strategies as st

many = settings(max_examples=120)
lengths = st.integers(1, 200)


def positions(q_len, k_len):
    return torch.arange(q_len)[:, None], torch.arange(k_len)[None]


def random_bools(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.4


@pytest.fixture(scope="module", autouse=True)
def loaded(extension):
    """Masks need the compiled operators."""


# Each: what hypothesis draws the parameters from, the mask, and its definition at (row, key).
def causal(i, j):
    return j <= i


def window(i, j, left, right):
    return (i - left <= j) & (j <= i + right)


def dilated(i, j, width, dilation):
    return functools.reduce(torch.logical_or, [j == i + n * dilation for n in range(-width, width + 1)])


def strided(i, j, step):
    """Child et al.: A1 is the last l positions, A2 those at distances divisible by l; both autoregressive."""
    last = torch.clamp(i - step, min=0) <= j
    return (j <= i) & (last | ((i - j) % step == 0))


def fixed(i, j, step, summary):
    """Child et al.: A1 is the row's own block, A2 the summary cells of all blocks; both autoregressive."""
    return (j <= i) & ((i // step == j // step) | (j % step >= step - summary))


def global_tokens(i, j, tokens):
    return torch.isin(i, torch.tensor(tokens)) | torch.isin(j, torch.tensor(tokens))


def below(x, counts):
    return x < torch.tensor(counts)[:, None, None, None]


DEFINED = {
    "causal": (st.just(()), Causal, causal),
    "window": (st.tuples(st.integers(0, 99), st.integers(0, 99)), SlidingWindow, window),
    "symmetric window": (st.tuples(st.integers(0, 210)), SlidingWindow, lambda i, j, w: window(i, j, w, w)),
    "dilated window": (st.tuples(st.integers(0, 9), st.integers(1, 90)), DilatedWindow, dilated),
    "strided": (st.tuples(st.integers(1, 210)), Strided, strided),
    # Without a step it is int(sqrt(seq)), as in AToffer's artifact.
    "strided by length": (st.just(()), Strided, lambda i, j: strided(i, j, math.isqrt(j.shape[1]))),
    "fixed by length": (st.just(()), Fixed, lambda i, j: fixed(i, j, math.isqrt(j.shape[1]), 1)),
    "fixed": (st.integers(1, 210).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))), Fixed, fixed),
    "first tokens": (st.tuples(st.integers(0, 210)), GlobalTokens, lambda i, j, n: (i < n) | (j < n)),
    "tokens": (st.tuples(st.lists(st.integers(0, 210), max_size=9)), GlobalTokens, global_tokens),
    "longformer": (
        st.tuples(st.integers(0, 99).map(lambda half: 2 * half), st.lists(st.integers(0, 210), max_size=5)),
        Longformer,
        lambda i, j, width, tokens: ((i - j).abs() <= width // 2) | global_tokens(i, j, tokens),
    ),
    "padding": (st.tuples(st.lists(st.integers(0, 210), min_size=1, max_size=4)), Padding, lambda i, j, n: below(j, n)),
    "padding of both": (
        st.lists(st.tuples(st.integers(0, 210), st.integers(0, 210)), min_size=1, max_size=4).map(
            lambda pairs: tuple(map(list, zip(*pairs, strict=True)))
        ),
        Padding,
        lambda i, j, keys, rows: below(j, keys) & below(i, rows),
    ),
    "prefix": (
        st.tuples(st.lists(st.integers(0, 210), min_size=1, max_size=4)),
        Prefix,
        lambda i, j, n: below(j, n) | (j <= i),
    ),
}


@pytest.mark.parametrize("name", DEFINED)
@settings(max_examples=40)
@given(data=st.data(), q_len=lengths, k_len=lengths)
def test_elements(name, data, q_len, k_len):
    draw, make, definition = DEFINED[name]
    parameters = data.draw(draw)
    found = make(*parameters).elements(q_len, k_len)
    expected = definition(*positions(q_len, k_len), *parameters).expand(found.shape)
    assert found.dtype == torch.bool
    assert torch.equal(found, expected)


def big_bird_blocks(mask, row_blocks, key_blocks):
    """The table of blocks, where each block is wholly True or False."""
    block = mask._fields[0]
    elements = mask.elements(row_blocks * block, key_blocks * block)[0, 0]
    blocks = elements.view(row_blocks, block, key_blocks, block).permute(0, 2, 1, 3).flatten(2)
    assert torch.equal(blocks.all(2), blocks.any(2))
    return blocks.all(2)


@many
@given(
    block=st.integers(1, 9),
    chosen=st.integers(0, 5),
    seed=st.integers(0, 1000),
    half=st.integers(0, 3),
    global_blocks=st.lists(st.integers(-3, 3), max_size=3),
    row_blocks=st.integers(1, 20),
    key_blocks=st.integers(1, 80),
)
def test_big_bird(block, chosen, seed, half, global_blocks, row_blocks, key_blocks):
    mask = BigBird(block, chosen, seed, 2 * half + 1, global_blocks)
    blocks = big_bird_blocks(mask, row_blocks, key_blocks)
    i, j = positions(row_blocks, key_blocks)
    everywhere = torch.tensor([g % key_blocks for g in global_blocks if -key_blocks <= g < key_blocks])
    everything = torch.tensor([g % row_blocks for g in global_blocks if -row_blocks <= g < row_blocks])
    seen = ((i - j).abs() <= half) | torch.isin(j, everywhere) | torch.isin(i, everything)
    assert (blocks | ~seen).all()
    random = (blocks & ~seen).sum(1)
    assert torch.equal(random, (~seen).sum(1).clamp(max=chosen))
    # The last block may be cut short.
    cut = mask.elements(row_blocks * block - block // 2, key_blocks * block - block // 2)
    whole = mask.elements(row_blocks * block, key_blocks * block)
    assert torch.equal(cut, whole[:, :, : cut.shape[2], : cut.shape[3]])


def test_big_birds_seed():
    """The same choice on every machine, another for another seed."""
    first = ["".join(map(str, row)) for row in big_bird_blocks(BigBird(2, 1, 7), 7, 7).int().tolist()]
    assert first == ["1111111", "1111001", "1111101", "1011111", "1101111", "1010111", "1111111"]
    tables = {tuple(big_bird_blocks(BigBird(2, 2, seed), 20, 20).flatten().tolist()) for seed in range(20)}
    assert len(tables) == 20


@many
@given(runs=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=6), min_size=1, max_size=3), seed=st.integers(0))
def test_documents(runs, seed):
    """By lengths and by ids, in one piece and scattered, and with rows and keys beyond the last document."""
    mask = Documents(lengths=runs[0])
    seq = sum(runs[0])
    ids = torch.tensor([number for number, length in enumerate(runs[0]) for _ in range(length)])
    same = ids[:, None] == ids[None]
    assert torch.equal(mask.elements(seq, seq)[0, 0], same)
    assert torch.equal(Documents(ids + 5).elements(seq, seq)[0, 0], same)
    assert mask.lower(seq, seq)[1] is None
    generator = torch.Generator().manual_seed(seed % 2**60)
    scattered = torch.randint(0, 3, (3, seq), generator=generator)
    same = scattered[:, None, :, None] == scattered[:, None, None, :]
    for found, expected in [(mask, None), (Documents(scattered), same)]:
        beyond = found.elements(seq + 7, seq + 9)
        assert not beyond[:, :, seq:].any()
        assert not beyond[:, :, :, seq:].any()
        if expected is not None:
            assert torch.equal(beyond[:, :, :seq, :seq], expected)
            assert torch.equal(found.elements(seq // 2 + 1, seq), expected[:, :, : seq // 2 + 1])


def test_documents_of_a_batch():
    ids = torch.tensor([[4, 4, 1, 1, 9], [0, 2, 2, 2, 0]])
    for batch in (ids, ids[:1]):
        same = batch[:, None, :, None] == batch[:, None, None, :]
        assert torch.equal(Documents(batch).elements(5, 5), same)
    assert Documents(ids[:1]).lower(5, 5)[1] is None
    assert Documents(ids).lower(5, 5)[0] is None


leaves = st.sampled_from(
    [
        Causal(),
        SlidingWindow(5, 17),
        DilatedWindow(3, 7),
        Strided(),
        Fixed(9, 2),
        GlobalTokens([3, 64, 66]),
        BigBird(16, 1),
        Padding([7, 90]),
        Prefix([1, 80]),
        Documents(lengths=[30, 1, 64]),
        Documents(torch.arange(130) % 3),
        "dense",
        "dense by head",
    ]
)


def leaf(chosen, q_len, k_len):
    if chosen == "dense":
        return Dense(random_bools(q_len, k_len))
    return Dense(random_bools(2, 3, 1, k_len)) if chosen == "dense by head" else chosen


@many
@given(
    first=leaves,
    rest=st.lists(st.tuples(leaves, st.sampled_from("&|"), st.booleans(), st.booleans()), max_size=5),
    q_len=st.integers(1, 130),
    k_len=st.integers(1, 130),
    rows=st.sampled_from([1, 16, 64, 100]),
    keys=st.sampled_from([1, 30, 64, 65, 128]),
)
def test_composition_and_tiles(first, rest, q_len, k_len, rows, keys):
    mask = leaf(first, q_len, k_len)
    expected = mask.elements(q_len, k_len)
    for chosen, sign, inverted, swapped in rest:
        other = leaf(chosen, q_len, k_len)
        elements = other.elements(q_len, k_len)
        left, right = (other, mask) if swapped else (mask, other)
        mask = left & right if sign == "&" else left | right
        expected = expected & elements if sign == "&" else expected | elements
        if inverted:
            mask, expected = ~mask, ~expected
    found = mask.elements(q_len, k_len)
    assert torch.equal(found, expected)
    assert found.shape[2:] == (q_len, k_len)
    assert_tiles(mask.tiles(q_len, k_len, rows, keys), expected, rows, keys)


def assert_tiles(tiles, elements, rows, keys):
    batch, heads, q_len, k_len = elements.shape
    shape = (batch, heads, -(-q_len // rows), -(-k_len // keys))
    assert tiles.classes.shape == shape
    assert tiles.bits.shape[1:] == (rows, -(-keys // 64))
    padded = torch.zeros(batch, heads, shape[2] * rows, shape[3] * keys, dtype=torch.bool)
    padded[:, :, :q_len, :k_len] = elements
    exists = torch.zeros_like(padded)
    exists[:, :, :q_len, :k_len] = True
    blocks, real = (
        x.view(batch, heads, shape[2], rows, shape[3], keys).transpose(3, 4).flatten(0, 3) for x in (padded, exists)
    )
    full = (blocks == real).flatten(1).all(1)
    expected = torch.where(full, 2, blocks.flatten(1).any(1).int())
    assert torch.equal(tiles.classes.flatten().int(), expected.int())
    bits = tiles.bits[..., None] >> torch.arange(64) & 1
    assert torch.equal(bits.flatten(2)[:, :, :keys].bool(), blocks[expected == 1])
    assert not bits.flatten(2)[:, :, keys:].any()
    assert tiles.density == pytest.approx(elements.double().mean().item())


def test_deep_compositions_fit():
    """What leans to the right is reordered: the program's stack holds 16 operands."""
    mask = Causal()
    for n in range(40):
        mask = SlidingWindow(n) | mask if n % 2 else ~(SlidingWindow(2 * n) & mask)
    assert mask.elements(70, 70).any()


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
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("mask", ATTENDED, ids=repr)
def test_attention(assert_matches, tensors, mask, is_causal, dtype):
    """The operator computes what the mask's elements say, and zero for rows that see nothing."""
    assert_matches(*tensors(dtype, heads=3, q_len=201, k_len=170, dim=40), mask, is_causal=is_causal)


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


def test_a_lowered_mask_is_kept():
    for mask in (Causal(), Strided(), BigBird(8), Causal() & Padding([3, 4]), ~Dense(random_bools(9, 9))):
        first, second = mask.lower(9, 9), mask.lower(9, 9)
        assert first[0] is second[0] and first[1] is second[1]
    assert SlidingWindow(4).lower(9, 9)[0] is SlidingWindow(4).lower(50, 70)[0]
    assert (Causal() & Padding([5, 6])).lower(9, 9)[0] is (Causal() & Padding((5, 6))).lower(9, 9)[0]
    assert Strided().lower(16, 16)[0] is not Strided().lower(25, 25)[0]
    mask = ~Dense(random_bools(1, 200))
    for q_len in range(1, 200):
        assert mask.lower(q_len, 200)[1].shape == (1, 1, q_len, 200)
    assert len(mask._lowered) <= 16


def test_dense_beside_structure():
    tensor = random_bools(9, 9)
    structure, mask = (Causal() & Dense(tensor)).lower(9, 9)
    assert mask is tensor
    assert structure is Causal().lower(9, 9)[0]
    assert Dense(tensor).lower(9, 9) == (None, tensor)
    for spelled in (Causal() | Dense(tensor), ~Dense(tensor), ~(Causal() & Dense(tensor))):
        assert spelled.lower(9, 9)[0] is None


def test_equality_hash_and_text():
    a, b = Causal() & (SlidingWindow(3) | GlobalTokens([5, 1])), Causal() & (SlidingWindow(3, 3) | GlobalTokens((1, 5)))
    assert a == b and hash(a) == hash(b) and a != ~a
    assert SlidingWindow(3) != SlidingWindow(4) and Causal() != Strided(3) and (Causal() == 3) is False
    assert repr(~a) == "~(Causal() & (SlidingWindow(3, 3) | GlobalTokens((1, 5))))"
    for mask in (a, Documents(lengths=[3, 0, 4])):
        assert eval(repr(mask)) == mask
    assert repr(Documents([4, 4, 5])) == "Documents(<torch.int64 [1, 3]>)"
    tensor = random_bools(2, 3)
    assert repr(Dense(tensor)) == "Dense(<torch.bool [2, 3]>)"
    assert Dense(tensor) == Dense(tensor) != Dense(tensor.clone())


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda mask: pickle.loads(pickle.dumps(mask))])
def test_copies(twin):
    mask = Causal() & Padding([3, 9]) & Dense(random_bools(9, 9))
    assert torch.equal(twin(mask).elements(9, 9), mask.elements(9, 9))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: SlidingWindow(-1), ValueError, "left is -1; it must be 0 or more"),
        (lambda: SlidingWindow(1, -2), ValueError, "right is -2"),
        (lambda: SlidingWindow(1.5), TypeError, "left is 1.5; it must be an integer"),
        (lambda: DilatedWindow(3, 0), ValueError, "dilation is 0; it must be 1 or more"),
        (lambda: Strided(0), ValueError, "step is 0"),
        (lambda: Fixed(4, 5), ValueError, "summary is 5 and step is 4"),
        (lambda: Fixed(4, 0), ValueError, "summary is 0"),
        (lambda: GlobalTokens([2, -1]), ValueError, "tokens is -1"),
        (lambda: Longformer(5, 1), ValueError, "window is 5; it must be even"),
        (lambda: BigBird(0), ValueError, "block is 0"),
        (lambda: BigBird(window=2), ValueError, "window is 2; it must be odd"),
        (lambda: Padding([3, -4]), ValueError, "lengths is -4"),
        (lambda: Padding([1, 2], [1, 2, 3]), ValueError, "lengths has batch 2 and q_lengths has 3"),
        (lambda: Padding("12"), TypeError, "lengths is '1'"),
        (lambda: Padding([1, 2]) & Prefix([1, 2, 3]), ValueError, "Prefix((1, 2, 3)) has 3; they must be the same"),
        (lambda: Padding([]), ValueError, "lengths is empty"),
        (lambda: Documents(lengths=[0, 0]), ValueError, "lengths is (0, 0)"),
        (lambda: Documents(lengths=[3, -1]), ValueError, "lengths is -1"),
        (lambda: Documents(), ValueError, "either ids or lengths"),
        (lambda: Documents(torch.zeros(1, 2, 3)), ValueError, "ids has shape [1, 2, 3] and dtype torch.float32"),
        (lambda: Dense(torch.zeros(3, 3)), TypeError, "tensor is <torch.float32 [3, 3]>"),
        (lambda: Dense([[True]]), TypeError, "tensor is [[True]]"),
        (lambda: Causal() & 3, TypeError, "unsupported operand"),
        (lambda: Dense(random_bools(3, 4)).elements(3, 5), ValueError, "for 3 rows and 4 keys; q_len"),
        (lambda: Causal().tiles(4, 4, 0), (ValueError, RuntimeError), "rows and keys are 0 and 64"),
    ],
)
def test_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "structure",
    [
        torch.tensor([2, 1, 0, 0, 0, 0]),
        torch.tensor([1, 1, 7, 6, 64, 0]),
        torch.tensor([1, 1, 0, 0, 0, 0], dtype=torch.int32),
        torch.tensor([1, 1, 0, 0, 0, 0, 0, 0])[::2],
        torch.zeros(2, 6, dtype=torch.int64),
    ],
)
def test_malformed_programs_are_refused(structure):
    with pytest.raises((ValueError, TypeError), match="structure"):
        torch.ops.fused_attention.mask_elements(structure, 1, 5, 5)
    with pytest.raises((ValueError, TypeError), match="structure"):
        torch.ops.fused_attention.mask_tiles(structure, None, 1, 1, 5, 5, 64, 64)


def test_programs_are_on_the_cpu_and_can_be_saved():
    """Whatever the default device is, and where masks are first used in inference mode."""
    with torch.device("meta"):
        mask = SlidingWindow(123) & Documents(lengths=[3, 4])
        assert mask.lower(7, 7)[0].device.type == "cpu"
    with torch.inference_mode():
        for mask in (SlidingWindow(124), ~Dense(torch.ones(7, 7, dtype=torch.bool)), Documents(lengths=[5, 2])):
            assert not any(tensor.is_inference() for tensor in mask.lower(7, 7) if tensor is not None)
