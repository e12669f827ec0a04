"""The function a user calls."""

from typing import Optional

import torch

from . import build


def fused_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: Optional[torch.Tensor] = None,
    *,
    is_causal: bool = False,
    scale: Optional[float] = None,
) -> torch.Tensor:
    """softmax(scale * q @ k^T + mask) @ v, without storing the scores.

    q: [batch, heads, q_len, dim]. k, v: [batch, kv_heads, k_len, dim], where kv_heads divides heads
    (consecutive query heads share a key head). dim is 1 to 256. float32, bfloat16 or float16, the same for
    all three; sums are kept in float32. Any strides are read in place, except that a tensor whose last
    dimension is not contiguous is copied first.
    mask: broadcastable to [batch, heads, q_len, k_len]. Boolean (True: attend), or float32 or the dtype of q,
    added to the scaled scores.
    is_causal: query i sees keys 0 to i, counted from the start of both (top-left alignment, as in torch's
    scaled_dot_product_attention). Goes together with a mask: a key must pass both.
    scale: 1 / sqrt(dim) unless given.

    Returns [batch, heads, q_len, dim] in the dtype and the memory order of q. A row that may attend to
    nothing is zero. The result is the same from run to run and for any number of threads.

    Raises TypeError, ValueError or RuntimeError that names the argument, what it is and what is allowed;
    RuntimeError where a gradient would be needed, for there is no backward pass; build.BuildError if the
    kernels do not compile. Older versions of torch raise RuntimeError for all of them.
    """
    if not build.is_loaded():
        build.load()
    return torch.ops.fused_attention.forward(q, k, v, mask, is_causal, scale)
