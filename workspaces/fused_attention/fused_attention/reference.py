"""Attention by its definition, in float64, on the device of the tensors; differentiable."""

import math
from typing import TYPE_CHECKING, List, Optional, Union

import torch

if TYPE_CHECKING:
    from .masks import Mask


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: "Optional[Union[torch.Tensor, Mask]]" = None,
    is_causal: bool = False,
    scale: Optional[float] = None,
    cu_seqlens: Optional[torch.Tensor] = None,
    max_seqlen: Optional[int] = None,
    cu_seqlens_k: Optional[torch.Tensor] = None,
    max_seqlen_k: Optional[int] = None,
    alibi_slopes: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """The same as fused_attention, in float64; the memory order of the result may differ."""
    if cu_seqlens is None:
        return _attention(q, k, v, _mask_tensor(mask, q.shape[2], k.shape[2], q.device), is_causal, scale, alibi_slopes)
    ends_q = cu_seqlens.tolist()
    ends_k = ends_q if cu_seqlens_k is None else cu_seqlens_k.tolist()
    longest_q = max_seqlen or _longest(ends_q)
    longest_k = max_seqlen_k or (longest_q if cu_seqlens_k is None else _longest(ends_k))
    tensor = _mask_tensor(mask, longest_q, longest_k, q.device)
    if tensor is not None:
        tensor = tensor.expand(len(ends_q) - 1, q.shape[1], longest_q, longest_k)
    outputs = []  # type: List[torch.Tensor]
    for i in range(len(ends_q) - 1):
        rows, keys = slice(ends_q[i], ends_q[i + 1]), slice(ends_k[i], ends_k[i + 1])
        lengths = (slice(None), slice(rows.stop - rows.start), slice(keys.stop - keys.start))
        here = None if tensor is None else tensor[i][lengths][None]
        one = _attention(q[:, :, rows], k[:, :, keys], v[:, :, keys], here, is_causal, scale, alibi_slopes)
        outputs.append(one)
    return torch.cat(outputs, dim=2) if outputs else torch.zeros_like(q, dtype=torch.float64)


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: Optional[torch.Tensor],
    is_causal: bool,
    scale: Optional[float],
    alibi_slopes: Optional[torch.Tensor],
) -> torch.Tensor:
    groups = q.shape[1] // k.shape[1] if k.shape[1] else 1
    k = k.repeat_interleave(groups, dim=1).double()
    v = v.repeat_interleave(groups, dim=1).double()
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = scale * (q.double() @ k.transpose(-1, -2))
    if alibi_slopes is not None:
        row = torch.arange(q.shape[2], device=q.device)[:, None]
        distance = (torch.arange(k.shape[2], device=q.device) - row).abs()
        scores = scores - alibi_slopes.double()[:, None, None] * distance
    if mask is not None and mask.dtype != torch.bool:
        scores = scores + mask.double()
    scores = scores.masked_fill(~_attended(scores, mask, is_causal), -math.inf)
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


def _mask_tensor(
    mask: "Optional[Union[torch.Tensor, Mask]]", q_len: int, k_len: int, device: torch.device
) -> Optional[torch.Tensor]:
    if mask is None or isinstance(mask, torch.Tensor):
        return mask
    return mask.elements(q_len, k_len).to(device)


def _longest(ends: List[int]) -> int:
    return max((end - start for start, end in zip(ends, ends[1:])), default=0)
