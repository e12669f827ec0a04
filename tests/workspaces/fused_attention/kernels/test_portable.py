"""What host and device share, compiled by g++ alone: conversions, online softmax, tile classes, exponential."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

many = settings(max_examples=150)


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


@pytest.fixture(scope="session")
def portable(compile_cpp):
    library = compile_cpp("portable.cpp")
    library.online_attention.restype = ctypes.c_float
    return library


def same(a, b):
    """Equal bit by bit, except for the bits of NaN."""
    a, b = (np.asarray(x, dtype=np.float32) for x in (a, b))
    signs = (np.signbit(x)[~np.isnan(x)] for x in (a, b))
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(*signs)


def half_of(bits):
    return bits.view(np.float16).astype(np.float32)


def bfloat_of(bits):
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).float().numpy()


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize(("name", "float_of"), [("halves", half_of), ("bfloats", bfloat_of)])
def test_conversions(portable, name, float_of):
    """Of every 16-bit number; of floats with 2^20 patterns in their upper bits and all halfway cases of binary16."""
    numbers = np.arange(2**16, dtype=np.uint16)
    floats = np.empty(2**16, dtype=np.float32)
    getattr(portable, f"floats_from_{name}")(pointer(numbers), pointer(floats), ctypes.c_int64(2**16))
    assert same(floats, float_of(numbers))

    upper = (np.arange(2**20, dtype=np.uint32) << 12).view(np.float32)
    halves = half_of(np.arange(0x7C00, dtype=np.uint16))
    halfway = (halves[1:] + halves[:-1]) / 2
    floats = np.concatenate([upper, halfway, np.nextafter(halfway, 1e9, dtype=np.float32), -halfway])
    numbers = np.empty(len(floats), dtype=np.uint16)
    getattr(portable, f"{name}_from_floats")(pointer(floats), pointer(numbers), ctypes.c_int64(len(floats)))
    rounded = floats.astype(np.float16) if name == "halves" else torch.from_numpy(floats).bfloat16().float()
    assert same(float_of(numbers), rounded)


@many
@given(
    scores=st.lists(st.floats(-200, 200, width=32) | st.just(-math.inf), min_size=1, max_size=40),
    tile=st.integers(1, 41),
)
def test_online_softmax_equals_softmax(portable, scores, tile):
    scores = np.array(scores, dtype=np.float32)
    values = np.cos(np.arange(len(scores), dtype=np.float32))
    out = portable.online_attention(pointer(scores), pointer(values), ctypes.c_int64(len(scores)), ctypes.c_int64(tile))
    exact = scores.astype(np.float64)
    if np.isinf(exact).all():
        assert out == 0.0
        return
    weights = np.exp(exact - exact.max())
    assert out == pytest.approx(float(weights @ values.astype(np.float64) / weights.sum()), abs=2e-5)


@pytest.mark.parametrize(("degree", "largest"), [(6, 1.3e-7), (3, 8.7e-5)])
def test_powers_of_two(compile_cpp, degree, largest):
    x = np.concatenate([np.linspace(-125.9, 64, 400_000), [0.0, -1e-30, 1e-3, 0.5]]).astype(np.float32)
    y = np.empty_like(x)
    library = compile_cpp("cpu_exp.cpp")
    powers = getattr(library, f"powers_{degree}")
    powers(pointer(x), pointer(y), ctypes.c_int64(len(x)))
    exact = np.exp2(x.astype(np.float64))
    assert (np.abs(y - exact) / exact).max() <= largest
    special = np.array([-math.inf, -1e30, -128.0, math.nan], dtype=np.float32)
    powers(pointer(special), pointer(special), ctypes.c_int64(4))
    assert same(special, np.array([0, 0, 0, math.nan], dtype=np.float32))
