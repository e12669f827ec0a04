"""The attention kernels on a GPU: which of them runs, whether outputs and gradients are right, then how fast it is.

    python tests/performance/attention_gpu.py [--json FILE]

Meant for 10 minutes. It needs a GPU, a torch built for CUDA, and nvcc; the kernel for Hopper (H100, H200) also needs
CUTLASS's headers: the package nvidia-cutlass, or CUTLASS_HOME. The first call compiles.

Errors are those of the output and of each gradient against float64, ||x - ref|| / ||ref||, beside those of SDPA's
formula in the same dtype; all are compared bit by bit from run to run. Where compute-sanitizer is on PATH, small calls
run under memcheck, synccheck and racecheck. Forward speed is that of CUDA graphs of several calls on rotating inputs,
all methods interleaved, medians of replays. Of the forward and the backward pass together it is that of CUDA events,
without graphs. Exits with 1 if something is wrong; nothing fails for being slow.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import math
import shutil
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "workspaces" / "fused_attention"))

from fused_attention import build, fused_attention, masks, reference
from fused_attention.bench import methods as bench_methods
from fused_attention.bench import timing

# Why a backend of SDPA cannot run a case: `measure` prints that it cannot.
warnings.filterwarnings("ignore", message=r"(?s).*\bsdp_utils")
SDPA = torch.nn.functional.scaled_dot_product_attention
DEVICE = "cuda"
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
SETS = 20  # of inputs, or as many as fill INPUT_BYTES, so that the cache does not serve them all
INPUT_BYTES = 256 << 20
REPLAYS, ROUNDS, BUDGET_S = 15, 7, 10.0
WORST_OF_SDPA = 1.5  # how much larger than SDPA's an error may be: weights are rounded in another order
ROUNDING = 1e-6  # of float32 sums: what has no larger error is right, whatever SDPA's is
# Of packed sequences: of the output, and of gradients.
PACKED_ERRORS = {torch.float32: (1e-5, 1e-5), torch.bfloat16: (4e-3, 1e-2), torch.float16: (6e-4, 2e-3)}
SANITIZER_S = 60
Method = Callable[..., torch.Tensor]


class Shape(NamedTuple):
    batch: int
    heads: int
    kv_heads: int
    q_len: int
    k_len: int
    dim: int
    dtype: torch.dtype


MASKS = {
    "window": lambda n: masks.SlidingWindow(n // 16),
    "longformer": lambda n: masks.Longformer(n // 16, [0]),
    "strided": lambda n: masks.Strided(),
    "big_bird": lambda n: masks.BigBird(64, seed=0),
}


def inputs(shape: Shape, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator(DEVICE).manual_seed(seed)
    sizes = [(shape.heads, shape.q_len), (shape.kv_heads, shape.k_len), (shape.kv_heads, shape.k_len)]
    # As a model has them: [batch, seq, heads, dim] behind a transpose.
    return [
        torch.randn(shape.batch, n, h, shape.dim, device=DEVICE, generator=generator).to(shape.dtype).transpose(1, 2)
        for h, n in sizes
    ]


def elements(mask: masks.Mask, shape: Shape) -> torch.Tensor:
    """The mask as booleans, [q_len, k_len]."""
    return mask.elements(shape.q_len, shape.k_len).reshape(shape.q_len, shape.k_len).to(DEVICE)


def kernel_of(call: Callable[[], Any]) -> str:
    """The names of the attention kernels that a call runs."""
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    names = [event.key for event in profile.key_averages() if "fused_attention" in event.key]
    kinds = {"hopper": "hopper", "differentiate": "gradients", "attend": "portable"}
    kernels = {kind for part, kind in kinds.items() for name in names if part in name}
    return "+".join(sorted(kernels)) or "none"


def results(call: Method, tensors: list[torch.Tensor], gradients: int) -> list[torch.Tensor]:
    """The output, and the gradients of the first `gradients` tensors."""
    given = [t.detach().requires_grad_(i < gradients) for i, t in enumerate(tensors)]
    leaves = given[:gradients]
    out = call(*given)
    if not gradients:
        return [out]
    weight = torch.randn(out.shape, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(1)).to(out.dtype)
    return [out.detach(), *torch.autograd.grad(out, leaves, weight)]


def errors(found: list[torch.Tensor], exact: list[torch.Tensor]) -> list[float]:
    return [float((one.double() - right).norm() / right.norm()) for one, right in zip(found, exact, strict=True)]


def words(numbers: list[float]) -> str:
    return " ".join(f"{number:.1e}" for number in numbers)


def formula(shape: Shape, q: Any, k: Any, v: Any, mask: Any, is_causal: bool, alibi_slopes: Any) -> torch.Tensor:
    """SDPA's formula, with all masks as one bias in the dtype of q."""
    seen = torch.ones(shape.q_len, shape.k_len, dtype=torch.bool, device=DEVICE)
    seen = seen.tril() if is_causal else seen
    bias = torch.zeros((), device=DEVICE)
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    elif mask is not None:
        bias = mask
    if alibi_slopes is not None:
        rows = torch.arange(shape.q_len, device=DEVICE)[:, None]
        bias = bias - alibi_slopes[:, None, None] * (torch.arange(shape.k_len, device=DEVICE) - rows).abs()
    # Finite, since rows without keys would have NaN as gradients.
    bias = torch.where(seen, bias, torch.finfo(q.dtype).min / 2).to(q.dtype)
    k, v = (t.repeat_interleave(shape.heads // shape.kv_heads, dim=1) for t in (k, v))
    with sdpa_kernel(SDPBackend.MATH):
        return SDPA(q, k, v, attn_mask=bias).masked_fill(~seen.any(-1, keepdim=True), 0)


def verify(
    name: str, shape: Shape, mask: Any = None, is_causal: bool = False, slopes: bool = False, backward: bool = True
) -> bool:
    """Check the output and the gradients for q, k and v; then also those for an additive mask and ALiBi slopes."""
    dense = elements(mask, shape) if isinstance(mask, masks.Mask) else mask
    added = dense is not None and dense.dtype != torch.bool
    tensors = [*inputs(shape), *([mask] if added else []), *([torch.rand(shape.heads, device=DEVICE) / 8] * slopes)]

    def called(function: Method, fixed: Any) -> Method:
        def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
            given = more[0] if added else fixed
            return function(q, k, v, given, is_causal=is_causal, alibi_slopes=more[-1] if slopes else None)

        return call

    all_good = True
    for gradients in sorted({3, len(tensors)}) if backward else [0]:
        exact = results(called(reference.attention, dense), tensors, gradients)
        ours, again = (results(called(fused_attention, mask), tensors, gradients) for _ in range(2))
        own = errors(ours, exact)
        others = errors(results(called(functools.partial(formula, shape), dense), tensors, gradients), exact)
        same = all(map(torch.equal, ours, again))
        good = same and all(o <= max(t * WORST_OF_SDPA, ROUNDING) for o, t in zip(own, others, strict=True))
        kernel = kernel_of(functools.partial(results, called(fused_attention, mask), tensors, gradients))
        verdict = "" if good else "  WRONG" if same else "  DIFFERS FROM RUN TO RUN"
        print(f"{name:44} {kernel:18} errors {words(own)}  SDPA {words(others)}{verdict}", flush=True)
        all_good = all_good and good
    return all_good


def verify_packed(dtype: torch.dtype, is_causal: bool) -> bool:
    lengths = [1, 700, 64, 129, 0, 384, 1000, 77]
    ends = torch.tensor([0, *lengths]).cumsum(0)
    tensors = inputs(Shape(1, 8, 2, int(ends[-1]), int(ends[-1]), 64, dtype))
    options: dict[str, Any] = {"cu_seqlens": ends.int().to(DEVICE), "max_seqlen": max(lengths), "is_causal": is_causal}
    ours = results(functools.partial(fused_attention, **options), tensors, 3)
    own = errors(ours, results(functools.partial(reference.attention, **options), tensors, 3))
    good = own[0] <= PACKED_ERRORS[dtype][0] and max(own[1:]) <= PACKED_ERRORS[dtype][1]
    name = f"{dtype} packed, causal {is_causal}"
    print(f"{name:44} {'':18} errors {words(own)}{'' if good else '  WRONG'}", flush=True)
    return good


def verify_all(small: bool) -> bool:
    good = True
    for dtype in (torch.bfloat16, torch.float16) if small else (torch.bfloat16, torch.float16, torch.float32):
        for dim, is_causal in itertools.product((64, 128) if small else (64, 128, 32, 80, 256), (False, True)):
            shape = Shape(2, 4, 2, 300, 333, dim, dtype)
            good &= verify(f"{dtype} dim {dim} causal {is_causal}", shape, None, is_causal)
        shape = Shape(2, 4, 2, 260, 520, 64, dtype)
        tensor = torch.rand(2, 1, 260, 520, device=DEVICE) < 0.7
        tensor[:, :, 100] = False
        good &= verify(f"{dtype} boolean tensor, an empty row", shape, tensor)
        good &= verify_packed(dtype, False) and verify_packed(dtype, True)
        if small:
            continue
        good &= verify(f"{dtype} additive mask", shape, torch.randn(2, 1, 260, 520, device=DEVICE).to(dtype))
        good &= verify(f"{dtype} ALiBi, causal", shape, None, True, slopes=True)
        for name, make in MASKS.items():
            good &= verify(f"{dtype} {name} 1024", Shape(1, 4, 4, 1024, 1024, 64, dtype), make(1024))
        for length in (1, 16, 63, 64, 65, 127, 128, 129, 1000, 4096):
            # The gradient of a single key is zero, and the error relative to it undefined.
            shape = Shape(2, 3, 3, length, length, 128, dtype)
            good &= verify(f"{dtype} length {length}", shape, None, length % 2 == 0, backward=16 <= length < 4096)
        shape = Shape(8, 16, 4, 1500, 1500, 64, dtype)
        good &= verify(f"{dtype} more pieces than blocks", shape, None, True, backward=False)
    if not small:
        with tf32():
            for dim, (name, make) in itertools.product((64, 128), MASKS.items()):
                shape = Shape(1, 4, 2, 1024, 1024, dim, torch.float32)
                good &= verify(f"TF32 dim {dim} {name}", shape, make(1024))
    return bool(good)


@contextlib.contextmanager
def tf32() -> Iterator[None]:
    """float32 products may be rounded to TF32."""
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def sanitize() -> bool:
    """Small calls under compute-sanitizer, each tool for at most SANITIZER_S."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        print("compute-sanitizer is not on PATH: memory and races were not checked")
        return True
    good = True
    for tool in ("memcheck", "synccheck", "racecheck"):
        command = [program, "--tool", tool, "--error-exitcode", "9", sys.executable, __file__, "--small"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SANITIZER_S)
        except subprocess.TimeoutExpired:
            print(f"{tool}: cut off after {SANITIZER_S} s")
            continue
        print(f"{tool}: {'clean' if done.returncode == 0 else done.stdout[-3000:]}", flush=True)
        good &= done.returncode == 0
    return good


def methods(shape: Shape, mask: Any, is_causal: bool, dense: Any) -> dict[str, tuple[Method, Callable[[], Any]]]:
    """What is compared, and in which context: ours, each backend of SDPA, and flex_attention where there is a mask."""
    no_context = bench_methods.no_context
    ours = functools.partial(fused_attention, mask=mask, is_causal=is_causal)
    sdpa = functools.partial(SDPA, attn_mask=dense, is_causal=is_causal)
    compared: dict[str, tuple[Method, Callable[[], Any]]] = {"ours": (ours, no_context)}
    compared |= {name: (sdpa, functools.partial(sdpa_kernel, backend)) for name, backend in BACKENDS.items()}
    if shape.batch * shape.heads * shape.q_len * shape.k_len > 1 << 28:
        del compared["math"]
    if dense is not None or is_causal:
        rule = (lambda b, h, i, j: j <= i) if dense is None else (lambda b, h, i, j: dense[i, j])
        blocks = create_block_mask(rule, None, None, shape.q_len, shape.k_len, device=DEVICE)
        compared["flex"] = (functools.partial(torch.compile(flex_attention), block_mask=blocks), no_context)
    return compared


def measure(
    name: str, shape: Shape, mask: Any = None, is_causal: bool = False, backward: bool = False
) -> dict[str, Any]:
    """Print the times of one case, in microseconds: of the forward pass, or of it and the backward pass."""
    one = inputs(shape)
    sets = max(2, min(SETS, INPUT_BYTES // sum(t.numel() * t.element_size() for t in one)))
    data = [one] if backward else [inputs(shape, seed) for seed in range(sets)]
    dense = None if mask is None else elements(mask, shape)
    functions = {}
    for method, (call, context) in methods(shape, mask, is_causal, dense).items():
        if backward and method == "flex":  # not compiled for gradients
            continue
        turns = itertools.cycle(data)

        def run(call: Method = call, turns: Any = turns) -> Any:
            return results(call, next(turns), 3) if backward else call(*next(turns))

        try:
            with context():
                run()
        except RuntimeError as error:
            # A backend without such masks; ours must take them all.
            if method == "ours":
                raise
            print(f"  {method}: {str(error).splitlines()[0][:100]}")
            continue
        functions[method] = timing.Timed(run, context)
    samples = events(functions) if backward else timing.interleaved(functions, "events", REPLAYS, BUDGET_S)
    times = {method: statistics.median(values) * 1000 for method, values in samples.items()}
    pairs = shape.q_len * (shape.q_len + 1) // 2 if is_causal else shape.q_len * shape.k_len
    pairs = pairs if dense is None else int(dense.sum())
    others = {method: time for method, time in times.items() if method != "ours"}
    fastest = min(others, key=others.__getitem__)
    rate = 4 * shape.batch * shape.heads * pairs * shape.dim / times["ours"] / 1e6
    ratio = others[fastest] / times["ours"]
    speed = "" if backward else f" {rate:6.0f} TFLOP/s"
    row = f"{name:34} {times['ours']:9.1f} us{speed}  {ratio:5.2f}x of {fastest:9}"
    print(row + "  ".join(f"{method} {time:.1f}" for method, time in others.items()), flush=True)
    return {"case": name, "us": times, "tflops": rate, "ratio": ratio, "fastest": fastest}


def events(functions: dict[str, timing.Timed]) -> dict[str, list[float]]:
    """Milliseconds of each call, without graphs."""
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for (name, (function, context)), _ in itertools.product(functions.items(), range(ROUNDS + 1)):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with context():
            begin.record()
            function()
            end.record()
        end.synchronize()
        samples[name].append(begin.elapsed_time(end))
    return {name: values[1:] for name, values in samples.items()}


def measure_all() -> list[dict[str, Any]]:
    torch._dynamo.config.recompile_limit = 1000
    rows = []
    for (dim, heads), length in itertools.product(((64, 32), (128, 16)), (128, 512, 1024, 2048, 4096, 8192)):
        # 16 thousand rows in all, as in the FlashAttention papers; and one sequence, as in the notes.
        for batch in {1, max(1, 16384 // length)}:
            shape = Shape(batch, heads, heads, length, length, dim, torch.bfloat16)
            rows.append(measure(f"dense d{dim} b{batch} s{length}", shape))
            if batch > 1 and length >= 512:
                rows.append(measure(f"causal d{dim} b{batch} s{length}", shape, None, True))
    for length in (512, 1024, 4096):
        shape = Shape(16384 // length, 12, 12, length, length, 64, torch.bfloat16)
        for name, make in MASKS.items():
            rows.append(measure(f"{name} d64 b{shape.batch} s{length}", shape, make(length)))
    for length, dim in itertools.product((512, 2048), (64, 128)):
        shape = Shape(8, 12, 12, length, length, dim, torch.float32)
        rows.append(measure(f"float32 d{dim} s{length}", shape))
        with tf32():
            rows.append(measure(f"TF32 d{dim} s{length}", shape))
    for length in (512, 2048):
        shape = Shape(8, 12, 12, length, length, 64, torch.bfloat16)
        cases: list[tuple[str, Any]] = [("dense", None), ("causal", None)]
        for name, mask in [*cases, *((name, make(length)) for name, make in MASKS.items())]:
            rows.append(measure(f"backward {name} b8 s{length}", shape, mask, name == "causal", backward=True))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write the measurements, a line each")
    parser.add_argument("--small", action="store_true", help="only what runs under compute-sanitizer")
    arguments = parser.parse_args()
    build.load()
    torch.manual_seed(0)
    if arguments.small:
        return 0 if verify_all(small=True) else 1
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    good = verify_all(small=False) & sanitize()
    rows = measure_all()
    for name in ("dense", "causal", *MASKS, "float32", "TF32", "backward"):
        ratios = [row["ratio"] for row in rows if row["case"].startswith(name)]
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        print(f"{name}: {mean:.2f}x in the mean, {min(ratios):.2f}x at worst")
    if arguments.json:
        arguments.json.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
