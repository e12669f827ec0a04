"""The cases that the benchmark checks and times: their sizes, their tensors and their masks."""

import itertools
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import torch

MASKS = ("none", "causal", "padding", "window")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Largest error against float64 for values of unit variance: a rounding of the output (up to 4) in the dtype
# and, in float32, of the sums.
TOLERANCES = {"float32": 2e-5, "bfloat16": 1.6e-2, "float16": 2e-3}


class Case(NamedTuple):
    batch: int
    heads: int
    seq: int
    dim: int
    dtype: str
    mask: str
    kv_heads: Optional[int] = None  # as many as heads

    def params(self) -> Dict[str, Any]:
        params = dict(self._asdict())
        params["kv_heads"] = self.kv_heads or self.heads
        return params


class Inputs(NamedTuple):
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: Optional[torch.Tensor]  # boolean
    is_causal: bool


def grid(
    batches: Sequence[int],
    heads: int,
    seqs: Sequence[int],
    dim: int,
    dtypes: Sequence[str],
    masks: Sequence[str],
) -> List[Case]:
    product = itertools.product(dtypes, masks, batches, seqs)
    return [Case(batch, heads, seq, dim, dtype, mask) for dtype, mask, batch, seq in product]


def correctness_cases(dtypes: Sequence[str]) -> List[Case]:
    """Few and awkward: lengths and head dimensions off every tile, grouped heads, each mask."""
    sizes = [
        (2, 3, 1, 1, None),
        (1, 4, 17, 64, 2),
        (2, 2, 127, 80, 1),
        (1, 2, 200, 256, None),
        (1, 12, 128, 64, None),
    ]
    return [
        Case(batch, heads, seq, dim, dtype, mask, kv_heads)
        for dtype in dtypes
        for mask in MASKS
        for batch, heads, seq, dim, kv_heads in sizes
    ]


def inputs(case: Case, device: str) -> Inputs:
    """Tensors of unit variance, laid out as projections are: [batch, seq, heads, dim], transposed."""
    generator = torch.Generator().manual_seed(case.seq * 1000 + case.dim)

    def tensor(heads: int) -> torch.Tensor:
        x = torch.randn(case.batch, case.seq, heads, case.dim, generator=generator)
        return x.to(device=device, dtype=DTYPES[case.dtype]).transpose(1, 2)

    kv_heads = case.kv_heads or case.heads
    q, k, v = tensor(case.heads), tensor(kv_heads), tensor(kv_heads)
    return Inputs(q, k, v, boolean_mask(case, device), case.mask == "causal")


def boolean_mask(case: Case, device: str) -> Optional[torch.Tensor]:
    """padding: [batch, 1, 1, seq], half to all keys. window: [seq, seq], seq / 16 keys to each side."""
    position = torch.arange(case.seq, device=device)
    if case.mask == "padding":
        lengths = torch.linspace(max(1, case.seq // 2), case.seq, case.batch).long().to(device)
        return (position < lengths[:, None])[:, None, None, :]
    if case.mask == "window":
        return (position[:, None] - position).abs() <= max(1, case.seq // 16)
    return None
