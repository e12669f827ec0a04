"""The public function, fused_attention()."""

from typing import TYPE_CHECKING, Optional, Tuple, Union

import torch

from . import build

if TYPE_CHECKING:
    from .masks import Mask


def fused_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: "Optional[Union[torch.Tensor, Mask]]" = None,
    *,
    is_causal: bool = False,
    scale: Optional[float] = None,
    cu_seqlens: Optional[torch.Tensor] = None,
    max_seqlen: Optional[int] = None,
    cu_seqlens_k: Optional[torch.Tensor] = None,
    max_seqlen_k: Optional[int] = None,
    alibi_slopes: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """softmax(scale * q @ k^T + mask) @ v, without storing the scores.

    q: [batch, heads, q_len, dim]. k, v: [batch, kv_heads, k_len, dim], where kv_heads divides heads
    (consecutive query heads share a key head). dim is 1 to 256. float32, bfloat16 or float16, the same for
    all three; sums are kept in float32. Any strides are read in place, except that a tensor whose last
    dimension is not contiguous is copied first.
    mask: a masks.Mask, or a tensor broadcastable to [batch, heads, q_len, k_len]: boolean (True: attend), or
    float32 or the dtype of q, added to the scaled scores.
    is_causal: query i sees keys 0 to i, counted from the start of both (top-left alignment, as in torch's
    scaled_dot_product_attention). Goes together with a mask: a key must pass both.
    scale: 1 / sqrt(dim) unless given.
    alibi_slopes: float32 [heads]; slope * -|key - query| is added to the scaled scores (Press et al., "Train
    short, test long", arXiv:2108.12409).

    Sequences of different lengths without padding: with cu_seqlens, q is [1, heads, rows of all sequences,
    dim], and sequence b has the rows cu_seqlens[b] to cu_seqlens[b + 1]. cu_seqlens: int32 [sequences + 1] on
    the device of q, from 0 to the number of rows. k and v are packed alike, by cu_seqlens_k where it is given.
    max_seqlen, max_seqlen_k: what no sequence's length exceeds; without them they are found, and on a GPU that
    waits for the device. On the CPU the values are checked; on a GPU wrong ones have no defined result. Rows
    and keys count from the start of their sequence, for masks too: a mask tensor is broadcastable to
    [sequences, heads, max_seqlen, max_seqlen_k], and then both must be given.

    Returns [batch, heads, q_len, dim] in the dtype and the memory order of q. A row that may attend to
    nothing is zero. The result is the same from run to run and for any number of threads.

    Gradients for q, k, v, an additive mask and alibi_slopes: the backward pass computes the scores again, some
    rows at a time, from q and k with float32 sums; the same from run to run. The first derivative only.

    Raises TypeError, ValueError or RuntimeError that names the argument, what it is and what is allowed;
    RuntimeError for a forward-mode or a second derivative; build.BuildError if the kernels do not compile.
    Older versions of torch raise RuntimeError for all of them.
    """
    if not build.is_loaded():
        build.load()
    if cu_seqlens_k is None and max_seqlen_k is None:
        max_seqlen_k = max_seqlen
    structure = None
    if mask is not None and not isinstance(mask, torch.Tensor):
        q_len, k_len = _lengths(q, k, cu_seqlens, max_seqlen, cu_seqlens_k, max_seqlen_k)
        if not hasattr(mask, "lower"):
            raise TypeError(
                "mask is a %s; allowed are a tensor and a mask of fused_attention.masks" % type(mask).__name__
            )
        structure, mask = mask.lower(q_len, k_len)
    return torch.ops.fused_attention.forward(
        q,
        k,
        v,
        mask,
        structure,
        alibi_slopes,
        cu_seqlens,
        cu_seqlens_k,
        max_seqlen or 0,
        max_seqlen_k or 0,
        is_causal,
        scale,
    )


def _lengths(
    q: torch.Tensor,
    k: torch.Tensor,
    cu_seqlens: Optional[torch.Tensor],
    max_seqlen: Optional[int],
    cu_seqlens_k: Optional[torch.Tensor],
    max_seqlen_k: Optional[int],
) -> Tuple[int, int]:
    """The lengths that a mask is lowered for; in packed sequences those of the longest."""
    if cu_seqlens is None:
        return q.shape[2], k.shape[2]
    longest = max_seqlen or _longest(cu_seqlens)
    if max_seqlen_k:
        return longest, max_seqlen_k
    return longest, longest if cu_seqlens_k is None else _longest(cu_seqlens_k)


def _longest(cu_seqlens: torch.Tensor) -> int:
    return int((cu_seqlens[1:] - cu_seqlens[:-1]).max()) if cu_seqlens.numel() > 1 else 0
