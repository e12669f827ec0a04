"""The backward pass of the attention extension on a GPU: whether it is right, then how fast it is.

    python tests/performance/attention_gpu_backward.py

It needs what attention_gpu.py needs. Errors are those of each gradient against float64, ||g - ref|| / ||ref||, beside
those of SDPA's formula in the same dtype; gradients are compared bit by bit from run to run. Times are of the forward
and the backward pass together, by CUDA events, without graphs: the backward pass evaluates masks on the CPU. Exits with
1 if something is wrong; nothing fails for being slow.
"""

from __future__ import annotations

import functools
import itertools
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
from attention_gpu import MASKS, SDPA, WORST_OF_SDPA, Shape, distance, elements, expanded, inputs, methods
from fused_attention import build, fused_attention, masks, reference
from torch.nn.attention import SDPBackend, sdpa_kernel

ROUNDS = 7
ROUNDING = 1e-6  # of float32 sums: a gradient that has no larger error is right, whatever SDPA's is


def gradients(call: Callable[..., Any], tensors: list[torch.Tensor], weight: torch.Tensor) -> list[torch.Tensor]:
    """Of sum(weight * call(...)), for each tensor."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    out = call(*leaves)
    return list(torch.autograd.grad((out * weight.to(out.dtype)).sum(), leaves))


def verify(name: str, shape: Shape, mask: Any = None, is_causal: bool = False, slopes: bool = False) -> bool:
    """Gradients for q, k and v, and for the mask where it is added, and for the slopes of ALiBi."""
    tensors = inputs(shape)
    added = isinstance(mask, torch.Tensor) and mask.dtype != torch.bool
    tensors += [mask] if added else []
    tensors += [torch.rand(shape.heads, device="cuda") / 8] if slopes else []
    dense = elements(mask, shape) if isinstance(mask, masks.Mask) else mask

    def called(function: Callable[..., torch.Tensor], fixed: Any) -> Callable[..., torch.Tensor]:
        def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
            found = rest[0] if added else fixed
            return function(q, k, v, found, is_causal=is_causal, alibi_slopes=rest[-1] if slopes else None)

        return call

    def formula(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Any, is_causal: bool, alibi_slopes: Any
    ) -> torch.Tensor:
        total = torch.zeros(shape.q_len, shape.k_len, device="cuda") if bias is None else bias
        if total.dtype == torch.bool:
            total = torch.zeros_like(total, dtype=torch.float32).masked_fill(~total, -1e30)
        if is_causal:
            total = total + torch.full((shape.q_len, shape.k_len), -1e30, device="cuda").triu(1)
        if alibi_slopes is not None:
            rows = torch.arange(shape.q_len, device="cuda")[:, None]
            total = total - alibi_slopes[:, None, None] * (torch.arange(shape.k_len, device="cuda") - rows).abs()
        with sdpa_kernel(SDPBackend.MATH):
            return SDPA(q, expanded(k, shape), expanded(v, shape), attn_mask=total.to(q.dtype))

    weight = torch.randn(shape.batch, shape.heads, shape.q_len, shape.dim, device="cuda")
    exact = gradients(called(reference.attention, dense), tensors, weight)
    ours = gradients(called(fused_attention, mask), tensors, weight)
    again = gradients(called(fused_attention, mask), tensors, weight)
    theirs = gradients(called(formula, dense), tensors, weight)
    errors = [distance(found, right.double()) for found, right in zip(ours, exact, strict=True)]
    others = [distance(found, right.double()) for found, right in zip(theirs, exact, strict=True)]
    same = all(map(torch.equal, ours, again))
    good = same and all(own <= max(other * WORST_OF_SDPA, ROUNDING) for own, other in zip(errors, others, strict=True))
    verdict = "" if good else "  WRONG" if same else "  DIFFERS FROM RUN TO RUN"
    print(f"{name:36} {_words(errors)}  SDPA {_words(others)}{verdict}", flush=True)
    return good


def verify_packed(dtype: torch.dtype, is_causal: bool) -> bool:
    lengths = [1, 700, 64, 129, 0, 384, 77]
    ends = torch.tensor([0, *lengths]).cumsum(0)
    tensors = inputs(Shape(1, 8, 2, int(ends[-1]), int(ends[-1]), 64, dtype))
    weight = torch.randn(1, 8, int(ends[-1]), 64, device="cuda")
    options: dict[str, Any] = {"cu_seqlens": ends.int().cuda(), "max_seqlen": max(lengths), "is_causal": is_causal}
    ours = gradients(functools.partial(fused_attention, **options), tensors, weight)
    exact = gradients(functools.partial(reference.attention, **options), tensors, weight)
    errors = [distance(found, right.double()) for found, right in zip(ours, exact, strict=True)]
    good = max(errors) <= (1e-2 if dtype == torch.bfloat16 else 2e-3 if dtype == torch.float16 else 1e-5)
    print(f"{f'{dtype} packed, causal {is_causal}':36} {_words(errors)}{'' if good else '  WRONG'}", flush=True)
    return good


def verify_all() -> bool:
    good = True
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for dim, is_causal in itertools.product((64, 128, 256), (False, True)):
            good &= verify(
                f"{dtype} dim {dim} causal {is_causal}", Shape(2, 4, 2, 300, 333, dim, dtype), None, is_causal
            )
        shape = Shape(2, 4, 2, 260, 520, 64, dtype)
        good &= verify(f"{dtype} additive mask", shape, torch.randn(2, 1, 260, 520, device="cuda").to(dtype))
        good &= verify(f"{dtype} boolean mask", shape, torch.rand(1, 4, 260, 520, device="cuda") < 0.7)
        good &= verify(f"{dtype} ALiBi, causal", shape, None, True, slopes=True)
        for name, make in MASKS.items():
            good &= verify(f"{dtype} {name} 1024", Shape(1, 4, 4, 1024, 1024, 64, dtype), make(1024))
        good &= verify_packed(dtype, False) and verify_packed(dtype, True)
    return bool(good)


def measure(name: str, shape: Shape, mask: Any = None, is_causal: bool = False) -> None:
    tensors = inputs(shape)
    weight = torch.randn(shape.batch, shape.heads, shape.q_len, shape.dim, device="cuda").to(shape.dtype)
    times = {}
    for method, call in methods(shape, mask, is_causal).items():
        if method == "flex":  # not compiled for gradients here
            continue
        try:
            times[method] = _time(functools.partial(gradients, call, tensors, weight))
        except RuntimeError:  # a backend without such masks
            if method == "ours":
                raise
    others = {method: value for method, value in times.items() if method != "ours"}
    fastest = min(others, key=others.__getitem__)
    rest = "  ".join(f"{method} {value:.2f}" for method, value in others.items())
    print(
        f"{name:30} {times['ours']:8.2f} ms  {others[fastest] / times['ours']:5.2f}x of {fastest:9} {rest}", flush=True
    )


def _time(call: Callable[[], Any]) -> float:
    """Milliseconds, the median."""
    call()
    call()
    taken = []
    for _ in range(ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end))
    return statistics.median(taken)


def _words(errors: list[float]) -> str:
    return " ".join(f"{error:.1e}" for error in errors)


def main() -> int:
    build.load()
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    good = verify_all()
    for length in (512, 2048):
        shape = Shape(8, 12, 12, length, length, 64, torch.bfloat16)
        measure(f"dense b8 s{length}", shape)
        measure(f"causal b8 s{length}", shape, None, True)
        for name, make in MASKS.items():
            measure(f"{name} b8 s{length}", shape, make(length))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
