"""The lists of key tiles that the CUDA kernels read, against the definition of structured masks."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.compiler

ALL, BAND, RESIDUE, BLOCK, KEYS, ROWS, KEY_BELOW, AND, OR, NOT = 0, 1, 2, 4, 5, 6, 9, 13, 14, 15
UNBOUNDED = 1 << 40


def program(instructions, data=()):
    """The tensor of structure.h; instructions name their data by its index."""
    begin = 2 + 4 * len(instructions)
    words = [1, len(instructions)]
    for op, a, b, c in instructions:
        words += [op, begin + a if op == KEY_BELOW else a, b, c]
    return np.array([*words, *data], dtype=np.int64)


def address(array):
    return array.ctypes.data_as(ctypes.c_void_p)


@pytest.fixture(scope="session")
def library(compile_cpp):
    return compile_cpp("tile_lists.cpp")


@pytest.fixture(scope="session")
def tiles(library):
    library.unpack_tiles.restype = ctypes.c_int64

    def compare(words, batch, q_len, k_len, rows, keys, causal=False):
        """Checks the lists against the definition. Returns how many blocks of bits there are."""
        sizes = [ctypes.c_int64(n) for n in (batch, q_len, k_len)]
        seen = np.zeros((batch, q_len, k_len), dtype=np.uint8)
        blocks = ctypes.c_int64()
        batches = library.unpack_tiles(
            address(words), int(causal), *sizes, rows, keys, address(seen), ctypes.byref(blocks)
        )
        assert batches in (1, batch)
        expected = np.zeros((batch, q_len, k_len), dtype=np.uint8)
        library.define_mask(address(words), int(causal), *sizes, address(expected))
        assert (np.broadcast_to(seen[:batches], expected.shape) == expected).all()
        return blocks.value

    return compare


@st.composite
def programs(draw):
    small = st.integers(-90, 90)
    leaves = st.one_of(
        st.builds(lambda a, b: (BAND, a, b, 0), small, small),
        st.builds(lambda a, b: (BAND, a, UNBOUNDED, b), small, st.just(0)),
        st.builds(lambda a, b: (RESIDUE, a, b, 0), st.integers(1, 9), small),
        st.builds(lambda a: (BLOCK, a, 0, 0), st.integers(1, 80)),
        st.builds(lambda op, a, b: (op, a, b, 0), st.sampled_from([KEYS, ROWS]), st.integers(0, 90), small),
        st.sampled_from([(ALL, 0, 0, 0), (KEY_BELOW, 0, 3, 0), (KEY_BELOW, 1, 1, 0)]),
    )
    instructions = [draw(leaves)]
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from([AND, OR, NOT]))
        instructions += [(NOT, 0, 0, 0)] if kind == NOT else [draw(leaves), (kind, 0, 0, 0)]
    return program(instructions, draw(st.lists(st.integers(0, 200), min_size=3, max_size=3)))


@settings(max_examples=120)
@given(
    words=programs(),
    q_len=st.integers(1, 200),
    k_len=st.integers(1, 200),
    shape=st.sampled_from([(64, 64), (128, 64), (16, 64), (128, 128), (32, 192)]),
    causal=st.booleans(),
)
def test_lists_say_what_the_program_says(tiles, words, q_len, k_len, shape, causal):
    tiles(words, 3, q_len, k_len, *shape, causal=causal)


def test_equal_blocks_are_kept_once(tiles):
    window = program([(BAND, -64, 64, 0)])
    # One block below the diagonal, one above it; the diagonal itself is full.
    assert tiles(window, 1, 1024, 1024, 64, 64) == 2


def test_causal_alone_has_one_block(tiles):
    assert tiles(program([(ALL, 0, 0, 0)]), 1, 512, 512, 64, 64, causal=True) == 1


@pytest.mark.parametrize(
    ("keys", "size", "hits", "left"),
    [
        ([1, 2, 3, 1, 4, 2, 1], 10, [0, 0, 0, 1, 0, 0, 1], 3),  # 2 was not used for longest when 4 came
        ([1, 2, 3, 2], 40, [0, 0, 0, 1], 2),  # 120 bytes are too many
        ([1, 2, 1], 200, [0, 0, 0], 1),  # the new one stays, whatever its size
        ([1000, 1, 2, 3, 4, 1000], 10, [0, 0, 0, 0, 0, 1], 4),  # 1000 is pinned, and the three last stay
    ],
)
def test_lists_are_kept_up_to_a_bound(library, keys, size, hits, left):
    library.use_store.restype = ctypes.c_int64
    found = np.zeros(len(keys), dtype=np.uint8)
    arrays = np.array(keys, dtype=np.int64), np.full(len(keys), size, dtype=np.int64)
    assert library.use_store(*map(address, arrays), ctypes.c_int64(len(keys)), address(found)) == left
    assert found.tolist() == hits
