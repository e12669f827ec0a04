"""The attention kernels on a GPU: which of them runs, whether it is right, then how fast it is. Meant for 8 minutes.

    python tests/performance/attention_gpu.py [--json FILE]

It needs a GPU, a torch built for CUDA, and nvcc; the kernel for Hopper (H100, H200) also needs CUTLASS's headers: the
package nvidia-cutlass, or CUTLASS_HOME. The first call compiles.

Errors are those of the output against float64, ||out - ref|| / ||ref||, beside SDPA's in the same dtype; outputs are
compared bit by bit from run to run. Where compute-sanitizer is on PATH, small calls run under memcheck, synccheck and
racecheck. Speed is that of CUDA graphs of several calls on rotating inputs, all methods interleaved, medians of
replays. Exits with 1 if something is wrong; nothing fails for being slow.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import shutil
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "workspaces" / "fused_attention"))

from fused_attention import build, fused_attention, masks, reference

# Why a backend of SDPA cannot run a case: `measure` prints that it cannot.
warnings.filterwarnings("ignore", message=r"(?s).*\bsdp_utils")
SDPA = torch.nn.functional.scaled_dot_product_attention
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
CALLS = 20  # in a graph, on as many sets of inputs as fill INPUT_BYTES, so that the cache does not serve them all
INPUT_BYTES = 256 << 20
REPLAYS = 15
WORST_OF_SDPA = 1.5  # how much larger than SDPA's an error may be: weights are rounded in another order
SANITIZER_S = 60


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
    generator = torch.Generator("cuda").manual_seed(seed)
    sizes = [(shape.heads, shape.q_len), (shape.kv_heads, shape.k_len), (shape.kv_heads, shape.k_len)]
    # As a model has them: [batch, seq, heads, dim] behind a transpose.
    return [
        torch.randn(shape.batch, n, h, shape.dim, device="cuda", generator=generator).to(shape.dtype).transpose(1, 2)
        for h, n in sizes
    ]


def elements(mask: masks.Mask, shape: Shape) -> torch.Tensor:
    """The mask as booleans, [q_len, k_len]."""
    return mask.elements(shape.q_len, shape.k_len).reshape(shape.q_len, shape.k_len).cuda()


def kernel_of(call: Callable[[], Any]) -> str:
    """The name of the attention kernel that a call runs."""
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    names = [event.key for event in profile.key_averages() if "fused_attention" in event.key]
    kinds = {"hopper" if "hopper" in name else "portable" for name in names if "classify" not in name}
    return "+".join(sorted(kinds)) or "none"


def distance(out: torch.Tensor, exact: torch.Tensor) -> float:
    return float((out.double() - exact).norm() / exact.norm())


def expanded(tensor: torch.Tensor, shape: Shape) -> torch.Tensor:
    return tensor.repeat_interleave(shape.heads // shape.kv_heads, dim=1)


def verify(name: str, shape: Shape, mask: Any = None, is_causal: bool = False) -> bool:
    q, k, v = inputs(shape)
    dense = elements(mask, shape) if isinstance(mask, masks.Mask) else mask
    exact = reference.attention(q, k, v, dense, is_causal)
    out = fused_attention(q, k, v, mask, is_causal=is_causal)
    again = fused_attention(q, k, v, mask, is_causal=is_causal)
    allowed = dense
    if is_causal:
        triangle = torch.ones(shape.q_len, shape.k_len, dtype=torch.bool, device="cuda").tril()
        allowed = triangle if dense is None else dense & triangle
    with sdpa_kernel(SDPBackend.MATH):
        other = SDPA(q, expanded(k, shape), expanded(v, shape), attn_mask=allowed)
    ours, theirs = distance(out, exact), distance(other.nan_to_num(), exact)
    good = ours <= theirs * WORST_OF_SDPA and bool(torch.equal(out, again))
    kernel = kernel_of(lambda: fused_attention(q, k, v, mask, is_causal=is_causal))
    verdict = "" if good else "  WRONG" if torch.equal(out, again) else "  DIFFERS FROM RUN TO RUN"
    print(f"{name:44} {kernel:9} error {ours:.2e}  SDPA {theirs:.2e}{verdict}", flush=True)
    return good


def verify_packed(dtype: torch.dtype, is_causal: bool) -> bool:
    lengths = [1, 700, 64, 129, 0, 384, 1000, 77]
    ends = torch.tensor([0, *lengths]).cumsum(0)
    q, k, v = inputs(Shape(1, 8, 2, int(ends[-1]), int(ends[-1]), 64, dtype))
    out = fused_attention(q, k, v, cu_seqlens=ends.int().cuda(), max_seqlen=max(lengths), is_causal=is_causal)
    spans = [slice(*pair) for pair in itertools.pairwise(ends.tolist())]
    exact = [reference.attention(*(t[:, :, span] for t in (q, k, v)), None, is_causal) for span in spans]
    error = distance(out, torch.cat(exact, dim=2))
    good = error <= (4e-3 if dtype == torch.bfloat16 else 6e-4)
    name = f"{dtype} packed, causal {is_causal}"
    print(f"{name:44} {'':9} error {error:.2e}{'' if good else '  WRONG'}", flush=True)
    return good


def verify_all(small: bool) -> bool:
    good = True
    for dtype in (torch.bfloat16, torch.float16):
        for dim in (64, 128) if small else (64, 128, 32, 80, 256):
            shape = Shape(1, 2, 1, 300, 333, dim, dtype)
            for is_causal in (False, True):
                good &= verify(f"{dtype} dim {dim} causal {is_causal}", shape, None, is_causal)
        shape = Shape(2, 4, 2, 260, 520, 64, dtype)
        tensor = torch.rand(2, 1, 260, 520, device="cuda") < 0.7
        tensor[:, :, 100] = False
        good &= verify(f"{dtype} boolean tensor, an empty row", shape, tensor)
        good &= verify_packed(dtype, False) and verify_packed(dtype, True)
        if small:
            continue
        for name, make in MASKS.items():
            good &= verify(f"{dtype} {name} 1024", Shape(1, 4, 4, 1024, 1024, 64, dtype), make(1024))
        for length in (1, 16, 63, 64, 65, 127, 128, 129, 1000, 4096):
            shape = Shape(2, 3, 3, length, length, 128, dtype)
            good &= verify(f"{dtype} length {length}", shape, None, length % 2 == 0)
        good &= verify(f"{dtype} more pieces than blocks", Shape(8, 16, 4, 1500, 1500, 64, dtype), None, True)
    return bool(good)


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


def graph_of(calls: list[Callable[[], Any]]) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls[:3]:
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def times_of(graphs: dict[str, torch.cuda.CUDAGraph]) -> dict[str, float]:
    """Microseconds a call, by method."""
    taken: dict[str, list[float]] = {name: [] for name in graphs}
    for replay in range(REPLAYS + 2):
        for name, graph in graphs.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if replay >= 2:
                taken[name].append(begin.elapsed_time(end) * 1000 / CALLS)
    return {name: statistics.median(values) for name, values in taken.items()}


def methods(shape: Shape, mask: Any, is_causal: bool) -> dict[str, Callable[..., Any]]:
    """What is compared: ours, each backend of SDPA, and flex_attention where there is a mask."""
    found: dict[str, Callable[..., Any]] = {"ours": lambda q, k, v: fused_attention(q, k, v, mask, is_causal=is_causal)}
    dense = None if mask is None else elements(mask, shape)

    def sdpa(chosen: SDPBackend, *tensors: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(chosen):
            return SDPA(*tensors, attn_mask=dense, is_causal=is_causal)

    found |= {name: functools.partial(sdpa, chosen) for name, chosen in BACKENDS.items()}
    if dense is not None or is_causal:
        rule = (lambda b, h, i, j: j <= i) if dense is None else (lambda b, h, i, j: dense[i, j])
        blocks = create_block_mask(rule, None, None, shape.q_len, shape.k_len, device="cuda")
        compiled = torch.compile(flex_attention)
        found["flex"] = lambda q, k, v: compiled(q, k, v, block_mask=blocks)
    return found


def measure(name: str, shape: Shape, mask: Any = None, is_causal: bool = False) -> dict[str, Any]:
    one = inputs(shape)
    sets = max(2, min(CALLS, INPUT_BYTES // sum(t.numel() * t.element_size() for t in one)))
    data = [inputs(shape, seed) for seed in range(sets)]
    graphs = {}
    for method, call in methods(shape, mask, is_causal).items():
        if method == "math" and shape.batch * shape.heads * shape.q_len * shape.k_len > 1 << 28:
            continue
        try:
            graphs[method] = graph_of([lambda i=i, call=call: call(*data[i % sets]) for i in range(CALLS)])
        except RuntimeError as error:
            # A backend without such masks; ours must take them all.
            if method == "ours":
                raise
            print(f"  {method}: {str(error).splitlines()[0][:100]}")
    times = times_of(graphs)
    pairs = shape.q_len * shape.k_len
    if mask is not None:
        pairs = int(elements(mask, shape).sum())
    elif is_causal:
        pairs = shape.q_len * (shape.q_len + 1) // 2
    others = {method: time for method, time in times.items() if method != "ours"}
    fastest = min(others, key=others.__getitem__)
    rate = 4 * shape.batch * shape.heads * pairs * shape.dim / times["ours"] / 1e6
    ratio = others[fastest] / times["ours"]
    row = f"{name:34} {times['ours']:9.1f} us {rate:6.0f} TFLOP/s  {ratio:5.2f}x of {fastest:9}"
    print(row + "  ".join(f"{method} {time:.1f}" for method, time in others.items()), flush=True)
    return {"case": name, "us": times, "tflops": rate, "ratio": ratio, "fastest": fastest}


def measure_all() -> list[dict[str, Any]]:
    torch._dynamo.config.recompile_limit = 1000
    rows = []
    for dim, heads in ((64, 32), (128, 16)):
        for length in (128, 512, 1024, 2048, 4096, 8192):
            # 16 thousand rows in all, as in the FlashAttention papers; and one sequence, as in the notes.
            for batch in {1, max(1, 16384 // length)}:
                shape = Shape(batch, heads, heads, length, length, dim, torch.bfloat16)
                name = f"dense d{dim} b{batch} s{length}"
                rows.append(measure(name, shape))
                if batch > 1 and length >= 512:
                    rows.append(measure(name.replace("dense", "causal"), shape, None, True))
    for length in (512, 1024, 4096):
        shape = Shape(16384 // length, 12, 12, length, length, 64, torch.bfloat16)
        for name, make in MASKS.items():
            rows.append(measure(f"{name} d64 b{shape.batch} s{length}", shape, make(length)))
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
    for name in ("dense", "causal", *MASKS):
        ratios = [row["ratio"] for row in rows if row["case"].startswith(name)]
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        print(f"{name}: {mean:.2f}x in the mean, {min(ratios):.2f}x at worst")
    if arguments.json:
        arguments.json.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
