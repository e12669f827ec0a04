"""masks.py: masks as objects: what is kept of one, equality, text, copies, and what is refused."""

from __future__ import annotations

import copy
import pickle

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

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module", autouse=True)
def kernels():
    build.load()


def random_bools(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.4


def test_what_is_lowered_is_kept():
    for mask in (Causal(), Strided(), BigBird(8), Causal() & Padding([3, 4]), ~Dense(random_bools(9, 9))):
        first, second = mask.lower(9, 9), mask.lower(9, 9)
        assert first[0] is second[0]
        assert first[1] is second[1]
    assert SlidingWindow(4).lower(9, 9)[0] is SlidingWindow(4).lower(50, 70)[0]
    assert (Causal() & Padding([5, 6])).lower(9, 9)[0] is (Causal() & Padding((5, 6))).lower(9, 9)[0]
    assert Strided().lower(16, 16)[0] is not Strided().lower(25, 25)[0]


def test_many_lengths_do_not_pile_up():
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
    assert a == b
    assert hash(a) == hash(b)
    assert a != ~a
    assert SlidingWindow(3) != SlidingWindow(4)
    assert Causal() != Strided(3)
    assert (Causal() == 3) is False
    assert repr(~a) == "~(Causal() & (SlidingWindow(3, 3) | GlobalTokens((1, 5))))"
    assert eval(repr(a)) == a
    assert eval(repr(Documents(lengths=[3, 0, 4]))) == Documents(lengths=[3, 0, 4])
    assert repr(Documents([4, 4, 5])) == "Documents(<torch.int64 [1, 3]>)"
    assert repr(Dense(random_bools(2, 3))) == "Dense(<torch.bool [2, 3]>)"
    tensor = random_bools(2, 3)
    assert Dense(tensor) == Dense(tensor)
    assert Dense(tensor) != Dense(tensor.clone())


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
