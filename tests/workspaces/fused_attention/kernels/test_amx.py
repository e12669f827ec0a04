"""The CPU kernel's AMX products: by emulated tiles on every machine, by the real ones where a processor has them."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

many = settings(max_examples=120)

SMALLEST_NORMAL = 2.0**-126


@pytest.fixture(scope="session")
def amx(compile_cpp):
    return compile_cpp("amx.cpp")


def tiles_here(amx):
    """0: emulated; 1: the processor's."""
    return (0, 1) if amx.usable() else (0,)


def address(t):
    return ctypes.c_void_p(t.data_ptr())


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def in_wider_memory(t, stride):
    """The same rows, `stride` elements apart, with NaN between them."""
    return torch.cat([t, torch.full((t.shape[0], stride - t.shape[1]), math.nan, dtype=t.dtype)], dim=1)


def pairs(t):
    """[n][m] to [n / 2][m][2], as TDPBF16PS wants its right-hand side."""
    return t.reshape(t.shape[0] // 2, 2, t.shape[1]).transpose(1, 2).contiguous()


def tiles_of(t):
    """[n][m] to tiles [n / 16][m / 32][16][32]."""
    return t.reshape(t.shape[0] // 16, 16, t.shape[1] // 32, 32).transpose(1, 2).contiguous()


def assert_sums(out, exact, magnitude, terms):
    """Within the roundings of a float32 sum of products, whatever its order."""
    allowed = (terms + 2) * 2**-24 * magnitude
    assert bool(((out.double() - exact).abs() <= allowed).all())


@pytest.mark.parametrize(
    ("left", "right", "total", "expected"),
    [
        pytest.param(SMALLEST_NORMAL / 2, 2.0, 0.0, 0.0, id="denormal in"),
        pytest.param(SMALLEST_NORMAL, 0.5, 0.0, 0.0, id="denormal out"),
        pytest.param(0.0, 1.0, SMALLEST_NORMAL / 2, 0.0, id="denormal sum"),
        pytest.param(math.inf, 0.0, 0.0, math.nan, id="infinity times zero"),
        pytest.param(1.0, 2**-8, 1 + 2**-15, 1 + 2**-8 + 2**-15, id="finer than bfloat16"),
        pytest.param(1.0, 2**-24, 1.0, 1.0, id="tie to even"),
    ],
)
def test_emulated_multiplication_is_that_of_the_manual(amx, left, right, total, expected):
    a, b, c = torch.zeros(16, 32).bfloat16(), torch.zeros(32, 16).bfloat16(), torch.zeros(16, 16)
    a[3, 5], b[5, 7], c[3, 7] = left, right, total
    amx.multiply_one(address(a), address(pairs(b)), address(c))
    torch.testing.assert_close(c[3, 7], torch.tensor(expected), rtol=0, atol=0, equal_nan=True)


@many
@given(
    rows=st.integers(1, 4),
    count=st.integers(1, 6),
    steps=st.integers(1, 8),
    extra=st.sampled_from([0, 2, 8, 50]),
    seed=st.integers(0, 1000),
)
def test_scores(amx, rows, count, steps, extra, seed):
    rows, count, dim = 16 * rows, 16 * count, 32 * steps
    q, k = numbers(rows, dim, seed=seed), numbers(count, dim, seed=seed + 1)
    stride = dim + extra
    memory, query = in_wider_memory(k, stride), pairs(q.T)
    for hardware in tiles_here(amx):
        out = torch.full((count, rows), math.nan)
        sizes = ctypes.c_int64(stride // 2), count, ctypes.c_int64(dim // 2)
        amx.keys(hardware, address(memory), *sizes, address(query), rows, address(out))
        assert_sums(out, k.double() @ q.double().T, k.double().abs() @ q.double().abs().T, dim)


@many
@given(
    rows=st.integers(1, 4),
    count=st.integers(1, 3),
    width=st.integers(1, 16),
    value_extra=st.sampled_from([0, 1, 16]),
    out_extra=st.sampled_from([0, 1, 16]),
    is_first=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_outputs(amx, rows, count, width, value_extra, out_extra, is_first, seed):
    rows, count, width = 16 * rows, 32 * count, 16 * width
    weights, v = numbers(rows, count, seed=seed).abs(), numbers(count, width, seed=seed + 1)
    start = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
    exact, magnitude = weights.double() @ v.double(), weights.double() @ v.double().abs()
    if not is_first:
        exact, magnitude = exact + start, magnitude + start.abs()
    left, right = tiles_of(weights), pairs(in_wider_memory(v, width + value_extra))
    for hardware in tiles_here(amx):
        out = in_wider_memory(start if not is_first else torch.full_like(start, math.nan), width + out_extra)
        lengths = ctypes.c_int64(width + value_extra), count, ctypes.c_int64(width), is_first
        amx.weights(hardware, address(left), rows, address(right), *lengths, address(out), ctypes.c_int64(out.shape[1]))
        assert_sums(out[:, :width], exact, magnitude, count + 1)
        assert bool(out[:, width:].isnan().all())


def test_transposition(amx):
    words = torch.arange(256, dtype=torch.int32).reshape(16, 16)
    out = words.clone()
    amx.transpose(address(out))
    assert torch.equal(out, words.T)


@pytest.mark.skipif(not shutil.which("objdump"), reason="objdump is missing")
def test_instructions_are_encoded_as_the_assembler_would(amx):
    """The bytes in amx.h, read back by binutils."""
    if not hasattr(amx, "instructions"):
        pytest.skip("the CPU lacks amx_tile")
    command = ["objdump", "-d", "--no-show-raw-insn", "--disassemble=instructions", amx._name]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [" ".join(line) for line in re.findall(r"\b(ldtilecfg|t(?:ile|dp)\w+)[ \t]*(\S*)$", listing, re.M)]
    assert found == [
        "ldtilecfg (%rax)",
        "tilezero %tmm5",
        "tileloadd (%rax,%rcx,1),%tmm6",
        "tdpbf16ps %tmm7,%tmm2,%tmm1",
        "tilestored %tmm3,(%rax,%rcx,1)",
        "tilerelease ",
    ]
