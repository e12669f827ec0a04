"""The methods that the benchmark times: ours and its rivals."""

import contextlib
import functools
import importlib
import math
from typing import Any, Callable, Iterator, List, NamedTuple, Sequence

import torch

from ..op import fused_attention
from . import flex
from .cases import Inputs, Unavailable

Function = Callable[[], Any]

CPU_BACKENDS = (("sdpa-flash", "FLASH_ATTENTION"), ("sdpa-math", "MATH"))
# Version 2, 3 and 4, by the module with flash_attn_func.
FLASH_PACKAGES = {
    "flash-attn": "flash_attn",
    "flash-attn-3": "flash_attn_interface",
    "flash-attn-4": "flash_attn.cute",
}
CUDA_BACKENDS = (("sdpa-cudnn", "CUDNN_ATTENTION"), ("sdpa-efficient", "EFFICIENT_ATTENTION"))


@contextlib.contextmanager
def no_context() -> Iterator[None]:
    yield


class Method(NamedTuple):
    """`make` gives the function to time; it may compile, and raises Unavailable where this torch cannot do it.

    `context` is entered around the timed calls, not within them. `matrices` is how many matrices of scores the
    method holds at its peak.
    """

    name: str
    make: Callable[[Inputs], Function]
    context: Callable[[], Any] = no_context
    matrices: float = 0

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("ours")


def methods(inputs: Inputs, with_flex: bool) -> List[Method]:
    """Ours first. SDPA needs torch 2.0, its choice of backends 2.3, flex_attention 2.5."""
    found = [Method("ours", lambda inputs: functools.partial(ours, inputs))]
    if inputs.lengths is not None:
        found.append(Method("ours-packed", packed))
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        found += sdpa_methods(inputs.q.is_cuda)
    found.append(Method("naive", naive, matrices=2.5))
    if with_flex:
        found.append(Method("flex", flex.compiled))
    if inputs.q.is_cuda:
        if with_flex:
            # FlashAttention 4's kernel under flex_attention, if it is installed.
            found.append(Method("flex-flash", functools.partial(flex.compiled, backend="FLASH")))
        for name, package in FLASH_PACKAGES.items():
            found.append(Method(name, functools.partial(flash_attn, package=package)))
    return found


def backwards(every: Sequence[Method]) -> List[Method]:
    """The methods' backward passes. The rows of a packed batch are not those of the inputs, so it has none."""
    return [one._replace(make=backward(one.make)) for one in every if one.name != "ours-packed"]


def backward(make: "Callable[[Inputs], Function]") -> "Callable[[Inputs], Function]":
    """The gradients of q, k and v instead of the result, for a gradient of unit variance."""

    def made(inputs: Inputs) -> Function:
        leaves = [x.detach().requires_grad_() for x in (inputs.q, inputs.k, inputs.v)]
        with torch.enable_grad():
            out = make(inputs._replace(q=leaves[0], k=leaves[1], v=leaves[2]))()
        grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
        return lambda: torch.autograd.grad(out, leaves, grad, retain_graph=True)

    return made


def ours(inputs: Inputs) -> torch.Tensor:
    return fused_attention(inputs.q, inputs.k, inputs.v, inputs.mask, is_causal=inputs.is_causal)


def packed(inputs: Inputs) -> Function:
    """Ours on the rows of a padded batch without the padding, packed beforehand: [1, heads, all rows, dim]."""
    lengths = inputs.lengths or []
    ends = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32).to(inputs.q.device)
    q, k, v = (
        torch.cat([x[i, :, :length].transpose(0, 1) for i, length in enumerate(lengths)]).transpose(0, 1)[None]
        for x in (inputs.q, inputs.k, inputs.v)
    )
    return functools.partial(fused_attention, q, k, v, cu_seqlens=ends, max_seqlen=max(lengths))


def sdpa_methods(cuda: bool) -> List[Method]:
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return [Method("sdpa", sdpa, matrices=3)]
    return [
        Method(name, sdpa, functools.partial(sdpa_kernel, getattr(SDPBackend, backend)), 3 if backend == "MATH" else 0)
        for name, backend in CPU_BACKENDS + (CUDA_BACKENDS if cuda else ())
        if hasattr(SDPBackend, backend)
    ]


def sdpa(inputs: Inputs) -> Function:
    groups = {"enable_gqa": True} if inputs.k.shape[1] != inputs.q.shape[1] else {}
    return functools.partial(
        torch.nn.functional.scaled_dot_product_attention,
        inputs.q,
        inputs.k,
        inputs.v,
        attn_mask=inputs.attended,
        is_causal=inputs.is_causal,
        **groups,
    )


def naive(inputs: Inputs) -> Function:
    """softmax(q k^T / sqrt(dim) + bias) v by three kernels: scale and bias are folded into the first product.

    Of the eager forms that were tried (masked_fill, an addition in place, an addition before) the fastest.
    """
    batch, heads, rows, dim = inputs.q.shape
    keys = inputs.k.shape[2]
    groups = heads // inputs.k.shape[1]
    k, v = (x.repeat_interleave(groups, dim=1) if groups > 1 else x for x in (inputs.k, inputs.v))
    attended = inputs.attended
    if inputs.is_causal:
        attended = torch.ones(rows, keys, dtype=torch.bool, device=k.device).tril()
    bias = torch.zeros(1, dtype=k.dtype, device=k.device)
    if attended is not None:
        bias = bias.masked_fill(~attended, -math.inf)
        if bias.dim() == 4:
            flat = bias.shape[0] * bias.shape[1] > 1
            bias = bias.expand(batch, heads, -1, -1).flatten(0, 1) if flat else bias[0, 0]

    def run() -> torch.Tensor:
        scores = torch.baddbmm(
            bias,
            inputs.q.reshape(batch * heads, rows, dim),
            k.reshape(batch * heads, keys, dim).transpose(1, 2),
            beta=0 if attended is None else 1,
            alpha=1 / math.sqrt(dim),
        )
        weights = torch.softmax(scores, dim=-1)
        return torch.bmm(weights, v.reshape(batch * heads, keys, dim)).view(batch, heads, rows, dim)

    return run


def flash_attn(inputs: Inputs, package: str) -> Function:
    """FlashAttention's own packages, for the masks that they support."""
    if inputs.attended is not None or inputs.q.dtype == torch.float32:
        raise Unavailable("it knows no such mask" if inputs.attended is not None else "it knows no float32")
    try:
        function = importlib.import_module(package).flash_attn_func
    except (ImportError, AttributeError) as error:
        raise Unavailable("%s is not installed" % package) from error
    q, k, v = (x.transpose(1, 2) for x in (inputs.q, inputs.k, inputs.v))

    def run() -> torch.Tensor:
        out = function(q, k, v, causal=inputs.is_causal)
        # Some releases also return the log-sum-exps.
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return run
