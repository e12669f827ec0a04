"""The host side of the CUDA kernels: the choice of a kernel, and the order of work."""

from __future__ import annotations

import ctypes

import pytest
import torch

from tests.support.kernel_calls import cuda_numbers

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="session")
def library(compile_cpp):
    return compile_cpp("cuda_kernels.cpp")


def plan_of(library, dtype, dim, architecture, *, batch=1, heads=12, q_len=512, alibi=False, processors=108):
    q = torch.empty(batch, heads, q_len, dim, dtype=dtype)
    mask = torch.zeros(1, 1, 1, q_len) if alibi else None
    numbers, _ = cuda_numbers(q, q, q, q, mask, False)
    fields = (ctypes.c_int64 * 5)()
    library.plan(numbers, ctypes.c_float(0.1), architecture, processors, fields)
    return dict(zip(("tensor_cores", "by_element", "dims", "warp_rows", "rows"), fields, strict=True))


def test_plans(library):
    assert plan_of(library, torch.float32, 64, 90)["tensor_cores"] == 0
    assert plan_of(library, torch.bfloat16, 64, 75) == dict(tensor_cores=0, by_element=0, dims=64, warp_rows=0, rows=64)
    assert plan_of(library, torch.bfloat16, 65, 86)["dims"] == 128
    few = plan_of(library, torch.float16, 64, 80)
    many = plan_of(library, torch.float16, 64, 80, batch=16)
    assert (few["warp_rows"], few["rows"], many["warp_rows"], many["rows"]) == (16, 64, 32, 128)
    assert plan_of(library, torch.float16, 64, 80, batch=16, alibi=True)["warp_rows"] == 16
    assert plan_of(library, torch.float16, 200, 80, batch=16)["warp_rows"] == 16
    # Quad-pairs have 32 rows, and no kernel for the rest.
    assert plan_of(library, torch.float16, 64, 70)["warp_rows"] == 32
    assert not plan_of(library, torch.float16, 256, 70)["tensor_cores"]
    assert not plan_of(library, torch.float16, 64, 70, alibi=True)["tensor_cores"]
    assert not plan_of(library, torch.float16, 64, 60)["tensor_cores"]


@pytest.mark.parametrize("section", [1, 4, 5, 24, 100])
def test_each_piece_is_taken_once_and_long_ones_first(library, section):
    q = torch.empty(2, 12, 300, 64, dtype=torch.float16)
    numbers, _ = cuda_numbers(q, q[:, :4], q[:, :4], q, None, True, section=section)
    out = (ctypes.c_int64 * (3 * 2 * 12 * 5))()
    library.pieces(numbers, 64, out)
    pieces = [tuple(out[i : i + 3]) for i in range(0, len(out), 3)]
    assert sorted(pieces) == [(b, h, t) for b in range(2) for h in range(12) for t in range(5)]
    first = [t for _, _, t in pieces[: 5 * min(section, 24)]]
    assert first == sorted(first, reverse=True)
