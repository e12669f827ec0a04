"""masks.py: every mask against its definition written out in torch, composition, tiles."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from fused_attention import build
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

pytestmark = pytest.mark.compiler

# The first example may wait for a compile.
many = settings(max_examples=120)
lengths = st.integers(1, 200)
UNBOUNDED = 2**40


@pytest.fixture(scope="module", autouse=True)
def kernels():
    build.load()


def positions(q_len, k_len):
    return torch.arange(q_len)[:, None], torch.arange(k_len)[None]


def random_bools(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.4


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


@pytest.mark.parametrize("length", [1, 2, 3, 15, 16, 17, 64, 99, 100, 131])
def test_strided_and_fixed_as_in_the_notes(length):
    """The loops of AToffer's artifact, whose step is int(sqrt(seq))."""
    step = int(math.sqrt(length))
    for row, (strides, blocks) in enumerate(
        zip(Strided().elements(length, length)[0, 0], Fixed().elements(length, length)[0, 0], strict=True)
    ):
        for key in range(length):
            assert strides[key] == (key <= row and ((row - key) % step == 0 or key > row - step))
            assert blocks[key] == (key <= row and (key % step == step - 1 or key > row + key % step - step))


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
        found = Documents(batch).elements(5, 5)
        assert torch.equal(found, batch[:, None, :, None] == batch[:, None, None, :])
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
