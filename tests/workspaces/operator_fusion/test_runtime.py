"""What generated modules stand on: the torch that is needed, and the packed matrix product."""

from __future__ import annotations

import pytest
import torch
from operator_fusion import runtime


@pytest.mark.parametrize("version", ["1.8.0", "1.13.1+cu117"])
def test_torch_without_compile_is_refused(version: str):
    with pytest.raises(runtime.Unsupported, match=r"torch 1\.\S+ has no torch.compile; use a variant with torch 2.0"):
        runtime.check_torch(version)


def test_newer_torch_is_taken():
    runtime.check_torch("2.0.0")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_packed_product_is_that_of_torch(dtype: torch.dtype):
    x, weight, bias = (torch.randn(size).to(dtype) for size in ((3, 5, 16), (24, 16), (24,)))
    for with_bias in (bias, None):
        expected = torch.nn.functional.linear(x, weight, with_bias)
        torch.testing.assert_close(runtime.linear(x, weight, with_bias), expected)
        runtime.pack(weight, 15)
        torch.testing.assert_close(runtime.linear(x, weight, with_bias), expected)
        runtime.unpack(weight)
