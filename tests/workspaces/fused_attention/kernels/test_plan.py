"""Schedules of the CPU kernel: every element of a mask computed once, and nothing else."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

many = settings(max_examples=150)

AVX512, AVX2 = (8, 4, 2), (2, 0, 0)


@pytest.fixture(scope="module")
def library(compile_cpp):
    return compile_cpp("cpu_plan.cpp")


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def packed(elements):
    """Bits of each row in words of 64."""
    q_len, k_len = elements.shape
    padded = np.zeros((q_len, -(-k_len // 64) * 64), dtype=bool)
    padded[:, :k_len] = elements
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64).copy()


def plan(library, elements, multiples, step=0, rest=None):
    q_len, k_len = elements.shape
    counts = np.zeros(elements.shape, dtype=np.int32)
    cost = ctypes.c_float()
    panels = library.plan(
        pointer(packed(elements)),
        None if rest is None else pointer(packed(rest)),
        *map(ctypes.c_int64, (step, q_len, k_len)),
        (ctypes.c_int * 3)(*multiples),
        pointer(counts),
        ctypes.byref(cost),
    )
    return panels, counts, cost.value


def positions(q_len, k_len):
    return np.arange(q_len)[:, None], np.arange(k_len)[None]


@many
@given(
    seed=st.integers(0, 1000),
    q_len=st.integers(1, 150),
    k_len=st.integers(1, 220),
    density=st.sampled_from([0.0, 0.02, 0.3, 0.9, 0.995, 1.0]),
    band=st.sampled_from([None, (0, 300), (3, 3), (20, 20)]),
    multiples=st.sampled_from([AVX512, AVX2]),
)
def test_any_mask(library, seed, q_len, k_len, density, band, multiples):
    elements = np.random.default_rng(seed).random((q_len, k_len)) < density
    if band:
        row, key = positions(q_len, k_len)
        elements &= (key >= row - band[1]) & (key <= row + band[0])
    panels, counts, _ = plan(library, elements, multiples)
    assert panels > 0
    assert np.array_equal(counts, elements.astype(np.int32))


@many
@given(
    q_len=st.integers(1, 150),
    k_len=st.integers(1, 150),
    step=st.integers(2, 40),
    local=st.integers(0, 30),
    causal=st.booleans(),
    multiples=st.sampled_from([AVX512, AVX2]),
)
def test_residues_with_a_phase_for_the_rest(library, q_len, k_len, step, local, causal, multiples):
    row, key = positions(q_len, k_len)
    allowed = key <= row if causal else np.ones((q_len, k_len), dtype=bool)
    rest = allowed & (np.abs(row - key) < local)
    elements = rest | (allowed & ((row - key) % step == 0))
    panels, counts, _ = plan(library, elements, multiples, step, rest)
    assert panels > 0
    assert np.array_equal(counts, elements.astype(np.int32))


def test_a_rest_that_is_no_part_of_the_mask_is_not_split(library):
    row, key = positions(40, 40)
    residues = (row - key) % 4 == 0
    _, counts, _ = plan(library, residues, AVX512, 4, np.ones((40, 40), dtype=bool))
    assert np.array_equal(counts, residues.astype(np.int32))


def test_panels_follow_the_mask(library):
    """A window is cut finely, blocks are not; a strided mask is cheap only by residues."""
    row, key = positions(512, 512)
    window = np.abs(row - key) <= 16
    blocks = row // 64 == key // 64
    assert plan(library, window, AVX512)[0] == 32
    assert plan(library, blocks, AVX512)[0] == 8
    rest = (key <= row) & (row - key < 16)
    strided = rest | ((key <= row) & ((row - key) % 16 == 0))
    assert plan(library, strided, AVX512, 16, rest)[2] < 0.5 * plan(library, strided, AVX512)[2]


@many
@given(words=st.lists(st.integers(0, 2**64 - 1), min_size=64, max_size=64))
def test_bit_transpose(library, words):
    array = np.array(words, dtype=np.uint64)
    library.transpose(pointer(array))
    expected = [sum(((words[row] >> column) & 1) << row for row in range(64)) for column in range(64)]
    assert array.tolist() == expected
