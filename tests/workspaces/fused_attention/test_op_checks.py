"""Bad input: each message names the argument, what it is, and what is allowed."""

from __future__ import annotations

import re

import pytest
import torch
from fused_attention import fused_attention, masks


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


def ends(*lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


Q = t(1, 2, 12, 8)
OPTIONS = {
    "scale nan": ({"scale": float("nan")}, ValueError, "scale is nan; it must be finite"),
    "scale infinite": ({"scale": float("inf")}, ValueError, "scale is inf; it must be finite"),
    "dtype": (
        {"cu_seqlens": torch.tensor([0, 12])},
        TypeError,
        "cu_seqlens has dtype torch.int64; it must be torch.int32",
    ),
    "shape": ({"cu_seqlens": ends(12)[None]}, ValueError, "cu_seqlens has shape [1, 2]; it must be [sequences + 1]"),
    "empty": ({"cu_seqlens": ends()[:0]}, ValueError, "cu_seqlens has shape [0]"),
    "device": ({"cu_seqlens": ends(12).to("meta")}, RuntimeError, "cu_seqlens is on meta and q on cpu"),
    "start": ({"cu_seqlens": ends(12) + 1}, ValueError, "cu_seqlens begins with 1; it must begin with 0"),
    "falls": ({"cu_seqlens": ends(9, -6, 9)}, ValueError, "cu_seqlens falls from 9 to 3 at element 2"),
    "end": (
        {"cu_seqlens": ends(5)},
        ValueError,
        "cu_seqlens ends with 5; it must end with the number of packed rows, 12",
    ),
    "bound": (
        {"cu_seqlens": ends(2, 10), "max_seqlen": 9},
        ValueError,
        "max_seqlen is 9 and the longest sequence of cu_seqlens has 10 rows; it must be at least as long",
    ),
    "negative bound": ({"cu_seqlens": ends(12), "max_seqlen": -1}, ValueError, "max_seqlen is -1; it must not be"),
    "bound alone": ({"max_seqlen": 12}, ValueError, "max_seqlen is 12 without cu_seqlens; only packed sequences"),
    "of k alone": ({"cu_seqlens_k": ends(12)}, ValueError, "cu_seqlens_k is given without cu_seqlens (of q)"),
    "numbers": (
        {"cu_seqlens": ends(12), "cu_seqlens_k": ends(6, 6)},
        ValueError,
        "cu_seqlens_k has 3 elements and cu_seqlens has 2; they must be as many",
    ),
    "mask without a bound": (
        {"cu_seqlens": ends(12), "mask": t(12, 12) == 0},
        ValueError,
        "mask is given with cu_seqlens and without max_seqlen",
    ),
    "slopes' shape": ({"alibi_slopes": t(3)}, ValueError, "alibi_slopes has shape [3]; it must be [heads] = [2]"),
    "slopes' dtype": (
        {"alibi_slopes": t(2, dtype=torch.float16)},
        TypeError,
        "alibi_slopes has dtype torch.float16; it must",
    ),
    "batch of packed": (
        dict.fromkeys("qkv", Q.expand(2, -1, -1, -1)) | {"cu_seqlens": ends(12)},
        ValueError,
        "q has batch 2 and cu_seqlens is given; packed sequences lie one after",
    ),
    "rows of packed k": (
        dict.fromkeys("kv", Q[:, :, :9]) | {"cu_seqlens": ends(12)},
        ValueError,
        "k has 9 packed rows and q has 12; they must be as many unless cu_seqlens_k",
    ),
    "size of a lowered mask": (
        {"mask": masks.Dense(t(3, 3) == 0) | masks.Causal()},
        ValueError,
        "mask is a tensor for 3 rows and 3 keys",
    ),
    "batch of a structured mask": (
        dict.fromkeys("qkv", t(3, 1, 9, 8)) | {"mask": masks.Padding([4, 5])},
        ValueError,
        "made for a batch of 2, and the call's is 3",
    ),
}


@pytest.mark.parametrize(("options", "error", "message"), OPTIONS.values(), ids=OPTIONS)
def test_message_about_an_option(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        fused_attention(**{**dict.fromkeys("qkv", Q), **options})


def test_options_are_named_only():
    with pytest.raises(TypeError, match="positional"):
        fused_attention(GOOD, GOOD, GOOD, None, True)


@pytest.mark.parametrize(
    ("structure", "error", "message"),
    [
        (t(2, 3).long(), ValueError, "structure has 2 dimensions, shape [2, 3]; it must have one"),
        (t(6), TypeError, "structure has dtype torch.float32; it must be torch.int64"),
        (t(6).long(), ValueError, "structure"),
    ],
)
def test_wrong_structures(extension, structure, error, message):
    with pytest.raises(error, match=re.escape(message)):
        torch.ops.fused_attention.forward(Q, Q, Q, structure=structure)


@pytest.mark.skipif(torch.version.cuda is not None, reason="this build of torch has CUDA, and so may the kernels")
def test_build_without_cuda_says_so(extension):
    """CUDA tensors cannot be made on a machine without a GPU: the registered kernel is called by its key."""
    with pytest.raises(RuntimeError, match="this build of fused_attention has no CUDA kernel"):
        torch.ops.fused_attention.forward.default.redispatch(
            torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA), GOOD, GOOD, GOOD
        )
