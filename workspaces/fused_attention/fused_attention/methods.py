"""The ways to compute attention that the benchmark times beside ours."""

import functools
import math
from typing import Callable, Dict

import torch

from .cases import Inputs
from .op import fused_attention


def methods(inputs: Inputs) -> Dict[str, Callable[[], torch.Tensor]]:
    """By name, ready to be called. torch's own is there from torch 2.0 on."""
    found = {"ours": functools.partial(ours, inputs)}  # type: Dict[str, Callable[[], torch.Tensor]]
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        found["sdpa"] = functools.partial(sdpa, inputs)
    found["naive"] = functools.partial(naive, inputs)
    return found


def ours(inputs: Inputs) -> torch.Tensor:
    return fused_attention(inputs.q, inputs.k, inputs.v, inputs.mask, is_causal=inputs.is_causal)


def sdpa(inputs: Inputs) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(
        inputs.q, inputs.k, inputs.v, attn_mask=inputs.mask, is_causal=inputs.is_causal
    )


def naive(inputs: Inputs) -> torch.Tensor:
    scores = torch.matmul(inputs.q / math.sqrt(inputs.q.shape[-1]), inputs.k.transpose(-1, -2))
    mask = inputs.mask
    if inputs.is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.matmul(torch.softmax(scores, dim=-1), inputs.v)
