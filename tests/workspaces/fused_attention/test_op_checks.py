"""Bad input: each message names the argument, what it is, and what is allowed."""

from __future__ import annotations

import re

import pytest
import torch
from fused_attention import fused_attention, masks

HALF, INT = torch.float16, torch.int64


def t(*shape, dtype=torch.float32, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


def ends(*lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


GOOD = t(2, 4, 8, 16)
Q = t(1, 2, 12, 8)
PACKED = {"q": Q, "k": Q, "v": Q, "cu_seqlens": ends(12)}
# By the class of the error: what differs from a good call, and the message.
WRONG_TYPES = [
    ({"q": GOOD.double()}, "q has dtype torch.float64; allowed are torch.float32, torch.bfloat16 and torch.float16"),
    ({"q": GOOD.long()}, "q has dtype torch.int64; allowed"),
    ({"k": GOOD.half()}, "k has dtype torch.float16 and q has torch.float32; they must be the same"),
    ({"v": GOOD.bfloat16()}, "v has dtype torch.bfloat16 and q has torch.float32"),
    (
        {"mask": t(8, 8, dtype=INT)},
        "mask has dtype torch.int64; allowed are torch.bool (True: attend), torch.float32 and the dtype of q",
    ),
    ({"mask": t(8, 8, dtype=HALF)}, "mask has dtype torch.float16; allowed"),
    ({"k": None}, "k is None; it must be a tensor"),
    ({"mask": [1.0]}, "mask is a list; allowed are a tensor and a mask of fused_attention.masks"),
    (PACKED | {"cu_seqlens": torch.tensor([0, 12])}, "cu_seqlens has dtype torch.int64; it must be torch.int32"),
    ({"alibi_slopes": t(4, dtype=HALF)}, "alibi_slopes has dtype torch.float16; it must"),
]
WRONG_VALUES = [
    ({"q": GOOD[0]}, "q has 3 dimensions, shape [4, 8, 16]; it must be [batch, heads, seq, dim]"),
    ({"k": t(16)}, "k has 1 dimensions, shape [16]; it must be"),
    (dict.fromkeys("qkv", t(1, 1, 2, 257)), "q has head dimension 257 (its last); allowed are 1 to 256"),
    (dict.fromkeys("qkv", t(1, 1, 2, 0)), "q has head dimension 0 (its last)"),
    ({"k": t(2, 4, 8, 12)}, "k has head dimension 12 and q has 16; they must be the same"),
    ({"k": GOOD[:1]}, "k has batch 1 and q has 2; they must be the same (Tensor.expand"),
    (dict.fromkeys("kv", t(2, 3, 8, 16)), "k has 3 heads and q has 4; the heads of k must divide those of q"),
    (dict.fromkeys("kv", t(2, 0, 8, 16)), "k has 0 heads and q has 4"),
    ({"v": t(2, 2, 8, 16)}, "v has 2 heads and k has 4; they must be the same"),
    ({"v": t(2, 4, 9, 16)}, "v has sequence length 9 and k has 8; they must be"),
    ({"mask": t(8, 9)}, "mask has shape [8, 9]; it must broadcast to [batch, heads, q, k] = [2, 4, 8, 8]"),
    ({"mask": t(1, 1, 1, 8, 8)}, "mask has shape [1, 1, 1, 8, 8]; it must"),
    ({"mask": masks.Dense(t(3, 3) == 0) | masks.Causal()}, "mask is a tensor for 3 rows and 3 keys"),
    ({"mask": masks.Padding([4, 5, 6])}, "made for a batch of 3, and the call's is 2"),
    ({"scale": float("nan")}, "scale is nan; it must be finite"),
    ({"scale": float("inf")}, "scale is inf; it must be finite"),
    ({"alibi_slopes": t(3)}, "alibi_slopes has shape [3]; it must be [heads] = [4]"),
    ({"max_seqlen": 12}, "max_seqlen is 12 without cu_seqlens; only packed sequences"),
    ({"cu_seqlens_k": ends(12)}, "cu_seqlens_k is given without cu_seqlens (of q)"),
    (PACKED | {"cu_seqlens": ends(12)[None]}, "cu_seqlens has shape [1, 2]; it must be [sequences + 1]"),
    (PACKED | {"cu_seqlens": ends()[:0]}, "cu_seqlens has shape [0]"),
    (PACKED | {"cu_seqlens": ends(12) + 1}, "cu_seqlens begins with 1; it must begin with 0"),
    (PACKED | {"cu_seqlens": ends(9, -6, 9)}, "cu_seqlens falls from 9 to 3 at element 2"),
    (PACKED | {"cu_seqlens": ends(5)}, "cu_seqlens ends with 5; it must end with the number of packed rows, 12"),
    (
        PACKED | {"cu_seqlens": ends(2, 10), "max_seqlen": 9},
        "max_seqlen is 9 and the longest sequence of cu_seqlens has 10 rows; it must be at least as long",
    ),
    (PACKED | {"max_seqlen": -1}, "max_seqlen is -1; it must not be"),
    (PACKED | {"cu_seqlens_k": ends(6, 6)}, "cu_seqlens_k has 3 elements and cu_seqlens has 2; they must be as many"),
    (PACKED | {"mask": t(12, 12) == 0}, "mask is given with cu_seqlens and without max_seqlen"),
    (
        PACKED | dict.fromkeys("qkv", Q.expand(2, -1, -1, -1)),
        "q has batch 2 and cu_seqlens is given; packed sequences lie one after",
    ),
    (
        PACKED | dict.fromkeys("kv", Q[:, :, :9]),
        "k has 9 packed rows and q has 12; they must be as many unless cu_seqlens_k",
    ),
]
WRONG_TENSORS = [
    ({"k": GOOD.to("meta")}, "k is on meta and q on cpu; all tensors must be on one device"),
    ({"mask": t(8, 8, device="meta")}, "mask is on meta and q on cpu; all tensors"),
    (PACKED | {"cu_seqlens": ends(12).to("meta")}, "cu_seqlens is on meta and q on cpu"),
    ({"v": [1.0]}, "argument 'v'"),
]
CASES = [
    *((TypeError, *case) for case in WRONG_TYPES),
    *((ValueError, *case) for case in WRONG_VALUES),
    *((RuntimeError, *case) for case in WRONG_TENSORS),
    ((TypeError, NotImplementedError), {"q": GOOD.to_sparse()}, "Sparse"),
]


@pytest.mark.parametrize(("error", "changes", "message"), CASES, ids=[message for *_, message in CASES])
def test_message(error, changes, message):
    with pytest.raises(error, match=re.escape(message)):
        fused_attention(**{**dict.fromkeys("qkv", GOOD), **changes})


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
