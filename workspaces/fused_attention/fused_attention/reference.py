"""Attention by its definition in float64, on whatever device the tensors are on."""

import math
from typing import Optional

import torch


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: Optional[torch.Tensor] = None,
    is_causal: bool = False,
    scale: Optional[float] = None,
) -> torch.Tensor:
    """What fused_attention computes, in float64 and without its memory order. Takes the same arguments."""
    groups = q.shape[1] // k.shape[1] if k.shape[1] else 1
    k = k.repeat_interleave(groups, dim=1).double()
    v = v.repeat_interleave(groups, dim=1).double()
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = scale * (q.double() @ k.transpose(-1, -2))
    if mask is not None and mask.dtype != torch.bool:
        scores = scores + mask.double()
    scores = scores.masked_fill(~_attended(scores, mask, is_causal), -math.inf)
    if k.shape[2] == 0:
        return torch.zeros_like(q, dtype=torch.float64)
    # A row of -inf has no softmax; by definition here it is zero.
    unreachable = (scores == -math.inf).all(dim=-1, keepdim=True)
    return (torch.softmax(scores.masked_fill(unreachable, 0.0), dim=-1) @ v).masked_fill(unreachable, 0.0)


def _attended(scores: torch.Tensor, mask: Optional[torch.Tensor], is_causal: bool) -> torch.Tensor:
    attended = torch.ones_like(scores, dtype=torch.bool)
    if is_causal:
        attended = attended.tril()
    if mask is not None and mask.dtype == torch.bool:
        attended = attended & mask
    return attended
