"""What FeatGraph, TACO and TurboTransformers print, in the formats of their repositories, as their recipes read it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from reprokit.bench.parse import Measurement, parse
from reprokit.errors import WorkFailed
from reprokit.recipe.find import target


def figures(recipe: str, benchmark: str, lines: Iterator[str]) -> tuple[Measurement, ...]:
    return parse(target(recipe).recipe.benchmarks[benchmark].parse, "\n".join(lines)).measurements


def spmm_x86() -> Iterator[str]:
    for columns in (1, 2, 4, 8, 16, 32):
        for features in (1, 2, 4):
            yield from ("", f"num_col_partitions: {columns}", f"num_feat_partitions: {features}")
            yield f"average time of 5 runs: {0.01 * columns + features} sec"


def spmm_cuda(blocks: int) -> Iterator[str]:
    for power in range(blocks):
        for threads in (32, 64):
            yield from ("", f"num_cuda_blocks: {64 * 4**power}", f"num_threads_per_cuda_block: {threads}")
            yield f"average time of 5 runs: {1.5 + power} ms"


def sddmm_cuda(blocks: int) -> Iterator[str]:
    for power in range(blocks):
        yield from ("", f"num_cuda_blocks: {64 * 4**power}", f"average time of 5 runs: {2.5 + power} ms")


def turbo(lengths: tuple[int, ...], threads: int) -> Iterator[str]:
    """benchmark_helper.run_model, after what turbo_benchmark_helper says first."""
    for framework in ("turbo", "torch"):
        for length in lengths:
            if framework == "turbo":
                yield "using CPU"
            row = {"QPS": 1000 / length, "elapsed": 0.15 * length, "n": 150, "batch_size": 1, "seq_len": length}
            yield json.dumps({**row, "framework": framework, "thread_num": threads, "model_name": "bert"})


def taco() -> Iterator[str]:
    for kernel in ("spmv", "add", "sddmm", "ttv", "mttkrp"):
        yield json.dumps({"metric": f"{kernel}.time", "unit": "ms", "samples": [1.5, 1.25]})


@pytest.mark.parametrize(
    ("recipe", "benchmark", "lines", "count"),
    [
        ("featgraph", "spmm", spmm_x86(), 18),
        ("featgraph", "spmm-reddit", spmm_x86(), 18),
        ("featgraph", "spmm-cuda", spmm_cuda(5), 10),
        ("featgraph", "spmm-reddit-cuda", spmm_cuda(6), 12),
        ("featgraph", "sddmm-cuda", sddmm_cuda(5), 5),
        ("featgraph", "sddmm-reddit-cuda", sddmm_cuda(7), 7),
        ("taco", "kernels", taco(), 5),
        ("turbotransformers", "bert", turbo((10, 40, 80, 120), 4), 8),
        ("turbotransformers", "bert-gpu", turbo((10, 20, 40, 60, 80, 100, 200, 300, 400, 500), 4), 20),
    ],
)
def test_every_figure_is_read_with_its_parameters(recipe: str, benchmark: str, lines: Iterator[str], count: int):
    printed = list(lines)
    found = figures(recipe, benchmark, iter(printed))
    assert len(found) == count == len({(f.metric, tuple(f.params.items())) for f in found})
    with pytest.raises(WorkFailed, match=f"a complete run prints {count}"):
        figures(recipe, benchmark, iter(printed[: len(printed) // 2]))


def test_turbotransformers_throughput():
    first = figures("turbotransformers", "bert", turbo((10, 40, 80, 120), 2))[1]
    assert (first.metric, first.unit, first.samples) == ("bert.throughput", "requests/s", (25.0,))
    params = {"n": 150, "batch_size": 1, "seq_len": 40, "framework": "turbo", "thread_num": 2, "model": "bert"}
    assert first.params == params
