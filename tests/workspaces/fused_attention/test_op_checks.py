"""Bad input: each message names the argument, what it is, and what is allowed."""

from __future__ import annotations

import re

import pytest
import torch
from fused_attention import fused_attention

pytestmark = pytest.mark.compiler


def t(*shape, dtype=torch.float32, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


GOOD = t(2, 4, 8, 16)
CASES = {
    "q dtype": (
        (t(2, 4, 8, 16, dtype=torch.float64), GOOD, GOOD),
        TypeError,
        "q has dtype torch.float64; allowed are torch.float32, torch.bfloat16 and torch.float16",
    ),
    "q integer": (
        (t(2, 4, 8, 16, dtype=torch.int64), GOOD, GOOD),
        TypeError,
        "q has dtype torch.int64; allowed",
    ),
    "k dtype": (
        (GOOD, GOOD.half(), GOOD),
        TypeError,
        "k has dtype torch.float16 and q has torch.float32; they must be the same",
    ),
    "v dtype": ((GOOD, GOOD, GOOD.bfloat16()), TypeError, "v has dtype torch.bfloat16 and q has torch.float32"),
    "q ndim": (
        (GOOD[0], GOOD, GOOD),
        ValueError,
        "q has 3 dimensions, shape [4, 8, 16]; it must be [batch, heads, seq, dim]",
    ),
    "k ndim": ((GOOD, t(16), GOOD), ValueError, "k has 1 dimensions, shape [16]; it must be"),
    "head dimension too large": (
        (t(1, 1, 2, 257),) * 3,
        ValueError,
        "q has head dimension 257 (its last); allowed are 1 to 256",
    ),
    "head dimension zero": ((t(1, 1, 2, 0),) * 3, ValueError, "q has head dimension 0 (its last)"),
    "k head dimension": (
        (GOOD, t(2, 4, 8, 12), GOOD),
        ValueError,
        "k has head dimension 12 and q has 16; they must be the same",
    ),
    "k batch": ((GOOD, GOOD[:1], GOOD), ValueError, "k has batch 1 and q has 2; they must be the same (Tensor.expand"),
    "k heads": (
        (GOOD, t(2, 3, 8, 16), t(2, 3, 8, 16)),
        ValueError,
        "k has 3 heads and q has 4; the heads of k must divide those of q",
    ),
    "k no heads": ((GOOD, t(2, 0, 8, 16), t(2, 0, 8, 16)), ValueError, "k has 0 heads and q has 4"),
    "v heads": ((GOOD, GOOD, t(2, 2, 8, 16)), ValueError, "v has 2 heads and k has 4; they must be the same"),
    "v length": ((GOOD, GOOD, t(2, 4, 9, 16)), ValueError, "v has sequence length 9 and k has 8; they must be"),
    "mask dtype": (
        (GOOD, GOOD, GOOD, t(8, 8, dtype=torch.int64)),
        TypeError,
        "mask has dtype torch.int64; allowed are torch.bool (True: attend), torch.float32 and the dtype of q",
    ),
    "mask dtype of another float": (
        (GOOD, GOOD, GOOD, t(8, 8, dtype=torch.float16)),
        TypeError,
        "mask has dtype torch.float16; allowed",
    ),
    "mask shape": (
        (GOOD, GOOD, GOOD, t(8, 9)),
        ValueError,
        "mask has shape [8, 9]; it must broadcast to [batch, heads, q, k] = [2, 4, 8, 8]",
    ),
    "mask ndim": ((GOOD, GOOD, GOOD, t(1, 1, 1, 8, 8)), ValueError, "mask has shape [1, 1, 1, 8, 8]; it must"),
    "device of k": (
        (GOOD, t(2, 4, 8, 16, device="meta"), GOOD),
        RuntimeError,
        "k is on meta and q on cpu; all tensors must be on one device",
    ),
    "device of mask": (
        (GOOD, GOOD, GOOD, t(8, 8, device="meta")),
        RuntimeError,
        "mask is on meta and q on cpu; all tensors",
    ),
    "sparse": ((GOOD.to_sparse(), GOOD, GOOD), (TypeError, NotImplementedError), "Sparse"),
    "None": ((GOOD, None, GOOD), TypeError, "k is None; it must be a tensor"),
    "mask of no known kind": (
        (GOOD, GOOD, GOOD, [1.0]),
        TypeError,
        "mask is a list; allowed are a tensor and a mask of fused_attention.masks",
    ),
    "not a tensor": ((GOOD, GOOD, [1.0]), RuntimeError, "argument 'v'"),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    arguments, error, message = CASES[name]
    with pytest.raises(error, match=re.escape(message)):
        fused_attention(*arguments)


@pytest.mark.parametrize("scale", [float("nan"), float("inf")])
def test_scale_must_be_finite(scale):
    with pytest.raises(ValueError, match=rf"scale is {scale}; it must be finite"):
        fused_attention(GOOD, GOOD, GOOD, scale=scale)


def test_options_are_named_only():
    with pytest.raises(TypeError, match="positional"):
        fused_attention(GOOD, GOOD, GOOD, None, True)


@pytest.mark.skipif(torch.version.cuda is not None, reason="this build of torch has CUDA, and so may the kernels")
def test_build_without_cuda_says_so():
    """CUDA tensors cannot be made here: the registered kernel is asked for by its key."""
    fused_attention(GOOD, GOOD, GOOD)  # loads the library
    with pytest.raises(RuntimeError, match="this build of fused_attention has no CUDA kernel"):
        torch.ops.fused_attention.forward.default.redispatch(
            torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA), GOOD, GOOD, GOOD
        )
