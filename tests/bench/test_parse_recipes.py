"""What the papers' programs print, read by the parsers of their recipes: every number, its parameters and its unit.

The texts are in the formats of the programs' repositories; rows of THGNN as the authors' tables in example_data have
them.
"""

from __future__ import annotations

import itertools
import json

import pytest

from reprokit.bench.parse import Measurement, parse
from reprokit.errors import WorkFailed
from reprokit.recipe.find import target


def numbers(recipe: str, benchmark: str, text: str) -> tuple[Measurement, ...]:
    return parse(target(recipe).recipe.benchmarks[benchmark].parse, text).measurements


def syncfree(mask: str) -> str:
    return (
        "batch_size    :     8 \nlayer_num     :     1 \nseq_len       :   256 \nhead_num      :    12 \n"
        "--------------------- Argument ---------------------\n"
        "Mean diff ours: 0.00000012\nMean diff jit : 0.00000000\n"
        f"Base({mask}_mask) time costs:  \t1.234 ms / iter\nJit ({mask}_mask) time costs:  \t1.111 ms / iter\n"
        f"Fuse({mask}_mask) time costs:  \t0.555 ms / iter\n"
    )


def sweep(form: str, *names: str) -> str:
    """Of masks, batches and lengths; a time is length / batch."""
    cases = itertools.product(["Strided", "Fixed"], [1, 8, 16], [64, 128, 256, 384, 512, 768, 1024])
    return "".join(
        form.format(mask=mask, batch=batch, length=length, name=name, time=length / batch)
        for mask, batch, length in cases
        for name in names
    )


SEARCHES = "".join(
    f"strategy: {file}\nround: 1  iter: 1  time_value: 9.5 \tvalue: 41115 4 [2, 6, 8, 9]\n"
    f"Result have been stored in ./search_result/1_rd_seq64_Time.csv !\n\n{name} time costs:  \t321.5 s\n{more}"
    "Global Min Time: 8.125 \tGlobal best Config: 41115\n"
    for file, name, more in (
        ("search1_random", "Random search", ""),
        ("search2_simulated_an", "SA search", ""),
        ("search3_ours", "Our probability search", "Mask_id: 1 \tSeqlen: 64\n"),
    )
)
GAT = "train_GAT_{impl},dataset={graph},head=1,f=128,latency=0.004126641750335693s,memory=1410.0MB\n"
EDGECONV = "train_edgeconv_{impl},dataset=modelnet40,k={k},batch={batch},latency=9.5e-02s,memory=2376.0MB\n"
MONET = "train_monet_{impl},dataset={graph},{setting},latency=0.006017930507659912s,memory=1386.0MB\n"
SETTINGS = {"cora": "k=3,d=2", "pubmed": "k=3,d=3", "citeseer": "k=3,d=3", "reddit": "k=2,d=1"}
FORWARD = "{model}_without_{what},latency=0.0032150411605834962s,memory=1998.0MB\n"
FORWARD += "{model}_with_{what},latency=0.00196s,memory=1498.0MB\n"


def figure7() -> str:
    rows = [GAT.format(impl=i, graph=g) for g in SETTINGS for i in ("our", "dgl")]
    rows += [EDGECONV.format(impl=i, k=k, batch=b) for k in (20, 40) for b in (32, 64) for i in ("our", "dgl")]
    rows += [MONET.format(impl=i, graph=g, setting=setting) for g, setting in SETTINGS.items() for i in ("our", "dgl")]
    return "Namespace(batch_size=32)\ntrain time: 0.1\n" + "".join(rows)


def flash_1() -> str:
    return "".join(
        f"{impl} - {part} pass\n<torch.utils.benchmark.utils.common.Measurement object at 0x7f2c1c0f5b50>\n"
        f"fn_amp(*inputs, **kwinputs)\n  {n}.25 ms\n  1 measurement, 30 runs , 8 threads\n"
        for impl in ("FlashAttention", "PyTorch Standard Attention")
        for n, part in enumerate(("Forward", "Backward", "Forward + Backward"), 2)
    )


def flash_2() -> str:
    """The largest shape of torch has no memory for the backward pass."""
    shapes = ((32, 512), (16, 1024), (8, 2048), (4, 4096), (2, 8192), (1, 16384))
    text = "".join(
        f"### causal={causal}, headdim={size}, batch_size={batch}, seqlen={length} ###\n"
        "Flash2 fwd: 170.11 TFLOPs/s, bwd: 120.22 TFLOPs/s, fwd + bwd: 131.33 TFLOPs/s\n"
        "Pytorch fwd: 40.00 TFLOPs/s, bwd: 50.00 TFLOPs/s, fwd + bwd: 46.00 TFLOPs/s\n"
        "Triton fwd: 0.00 TFLOPs/s, bwd: 0.00 TFLOPs/s, fwd + bwd: 0.00 TFLOPs/s\n"
        for causal, size, (batch, length) in itertools.product((False, True), (64, 128), shapes)
    )
    head, _, _ = text.rpartition("Pytorch fwd: 40.00")
    return f"{head}Pytorch fwd: 40.00 TFLOPs/s, bwd: 0.00 TFLOPs/s, fwd + bwd: 0.00 TFLOPs/s\n"


def bytetransformer() -> str:
    return "".join(
        f"batch_size {batch} seqlen {length}\ninput_lengths: tensor([37, 12])\n"
        f"max diff: tensor(0.0039, dtype=torch.float16)\ntime costs:    {length / 100:.2f} ms\n"
        for batch in (1, 2, 4, 8, 16)
        for length in (32, *range(64, 1025, 64))
    )


SIZES = list(itertools.product((1, 8, 32), (32, 128, 384)))


def fastertransformer() -> str:
    return "".join(
        f"batch_size {batch} seq_len {length}\n[INFO] MPI is not available in this PyTorch build.\n"
        "FT Mean diff: 0.00016689300537109375\nFT Max diff:  0.0009765625\nFT Min diff:  0.0\n"
        "[INFO] HuggingFaceEnocder time costs:    5.77 ms\n[INFO] FasterTransformer time costs:     1.12 ms\n"
        "[INFO] EFF-FasterTransformer time costs: 1.33 ms\n"
        for batch, length in SIZES
    )


def fastertransformer_cpp() -> str:
    return "".join(
        f"remove_padding {n}\nDevice NVIDIA A100-SXM4-80GB\nAfter allocate free 29.43 GB used 2.32 GB total 31.75 GB\n"
        f"[INFO] batch_size {batch} seq_len {length} layer 12 FT-CPP-time 4.00 ms (100 iterations) \n"
        for batch, length in SIZES
        for n in (0, 1)
    )


def spmm() -> str:
    return "".join(
        f"\nnum_col_partitions: {columns}\nnum_feat_partitions: {features}\n"
        f"average time of 5 runs: {0.01 * columns + features} sec\n"
        for columns in (1, 2, 4, 8, 16, 32)
        for features in (1, 2, 4)
    )


def cuda(blocks: int, *threads: int) -> str:
    per_block = [f"num_threads_per_cuda_block: {number}\n" for number in threads] or [""]
    return "".join(
        f"\nnum_cuda_blocks: {64 * 4**power}\n{per}average time of 5 runs: {1.5 + power} ms\n"
        for power in range(blocks)
        for per in per_block
    )


def turbo(*lengths: int) -> str:
    """benchmark_helper.run_model, after what turbo_benchmark_helper prints first."""
    rows = (
        {"QPS": 1000 / length, "elapsed": 0.15 * length, "n": 150, "batch_size": 1, "seq_len": length}
        | {"framework": framework, "thread_num": 2, "model_name": "bert"}
        for framework in ("turbo", "torch")
        for length in lengths
    )
    return "using CPU\n" + "".join(json.dumps(row) + "\n" for row in rows)


def taco() -> str:
    rows = ({"metric": f"{name}.time", "unit": "ms", "samples": [1.5]} for name in ("spmv", "add", "sddmm", "ttv", "x"))
    return "".join(json.dumps(row) + "\n" for row in rows)


COUNTS = {
    ("atoffer", "attention"): (syncfree("Strided") + syncfree("Fixed"), 6),
    ("atoffer", "figures9-10"): (
        sweep("{mask} bs:{batch} Seqlen:{length} {name} time costs:  \t{time:.3f} ms / iter\n", "Base", "Jit", "Ours"),
        126,
    ),
    ("atoffer", "figures11-12"): (
        sweep("{mask} bs:{batch} Seqlen:{length} {name} time costs: {time} ms\n", "atoffer", "jit", "native"),
        126,
    ),
    ("thgnn", "figure7"): (figure7(), 48),
    ("flash-attention", "v1"): (flash_1(), 6),
    ("bytetransformer", "bert"): (bytetransformer(), 85),
    ("fastertransformer", "bert"): (fastertransformer(), 27),
    ("fastertransformer", "bert-cpp"): (fastertransformer_cpp(), 18),
    ("featgraph", "spmm"): (spmm(), 18),
    ("featgraph", "spmm-reddit"): (spmm(), 18),
    ("featgraph", "spmm-cuda"): (cuda(5, 32, 64), 10),
    ("featgraph", "spmm-reddit-cuda"): (cuda(6, 32, 64), 12),
    ("featgraph", "sddmm-cuda"): (cuda(5), 5),
    ("featgraph", "sddmm-reddit-cuda"): (cuda(7), 7),
    ("taco", "kernels"): (taco(), 5),
    ("turbotransformers", "bert"): (turbo(10, 40, 80, 120), 8),
    ("turbotransformers", "bert-gpu"): (turbo(10, 20, 40, 60, 80, 100, 200, 300, 400, 500), 20),
}


@pytest.mark.parametrize(("recipe", "benchmark"), COUNTS)
def test_every_number_of_a_complete_run_is_read_with_its_parameters(recipe: str, benchmark: str):
    text, count = COUNTS[recipe, benchmark]
    complete = numbers(recipe, benchmark, text)
    assert len(complete) == count == len({(f.metric, tuple(f.params.items())) for f in complete})
    half = "".join(text.splitlines(keepends=True)[: text.count("\n") // 2])
    with pytest.raises(WorkFailed, match=f"a complete run prints {count}"):
        numbers(recipe, benchmark, half)


FLASH2 = {"impl": "Flash2", "causal": "True", "headdim": 128, "batch_size": 1, "seqlen": 16384}
LARGEST = {"batch_size": 32, "seq_len": 384}
TURBO = {"n": 150, "batch_size": 1, "seq_len": 40, "framework": "turbo", "thread_num": 2, "model": "bert"}
REORG = FORWARD.format(model="gat", what="reorg") + FORWARD.format(model="edgeconv", what="reorg")
FUSION = "".join(FORWARD.format(model=model, what="fusion") for model in ("gat", "edgeconv", "monet"))
OVERHEAD = "Mask_id: 1 \tSeqlen: 256\nSingle Our probability search time costs:  \t12.3 ms\n"


@pytest.mark.parametrize(
    ("name", "text", "samples"),
    [
        ("atoffer attention mha.atoffer", syncfree("Strided") + syncfree("Fixed"), {
            0.555: {"mask": "Fixed", "batch_size": 8, "seq_len": 256}}),
        ("atoffer attention mha.native", syncfree("Strided") + syncfree("Fixed"), {1.234: {"mask": "Strided"}}),
        ("atoffer attention mha.jit", syncfree("Strided") + syncfree("Fixed"), {1.111: {"mask": "Strided"}}),
        ("atoffer figures9-10 mha.atoffer", COUNTS["atoffer", "figures9-10"][0], {
            64: {"mask": "Fixed", "batch_size": 16, "seq_len": 1024}}),
        ("atoffer figures11-12 end2end.native", COUNTS["atoffer", "figures11-12"][0], {
            8: {"mask": "Strided", "batch_size": 8, "seq_len": 64}}),
        ("atoffer figure13 search.time", SEARCHES, {321.5: {"strategy": "ours"}}),
        ("atoffer figure13 search.best", SEARCHES, {8.125: {"strategy": "random"}}),
        ("atoffer search-cost search.overhead", OVERHEAD, {12.3: {"mask_id": 1, "seq_len": 256}}),
        ("thgnn figure7 train.epoch", figure7(), {
            0.004126641750335693: {"model": "GAT", "impl": "our", "dataset": "cora", "setting": "head=1,f=128"},
            0.095: {"model": "edgeconv", "impl": "dgl", "setting": "k=40,batch=64"}}),
        ("thgnn figure7 train.device-memory", figure7(), {1410: {"model": "GAT", "impl": "our", "dataset": "cora"}}),
        ("thgnn figure8 forward.time", REORG, {0.0032150411605834962: {"model": "gat", "impl": "without_reorg"}}),
        ("thgnn figure8 forward.device-memory", REORG, {1498: {"model": "edgeconv", "impl": "with_reorg"}}),
        ("thgnn figure9 forward.time", FUSION, {0.00196: {"model": "monet", "impl": "with_fusion"}}),
        ("thgnn figure10 train.epoch",
            "".join(GAT.format(impl=i, graph="reddit") + MONET.format(impl=i, graph="reddit", setting="k=2,d=1")
                    for i in ("nofusion", "stash", "our")),
            {0.004126641750335693: {"model": "GAT", "impl": "stash"}}),
        ("flash-attention v1 attention.time", flash_1(), {
            2.25: {"impl": "FlashAttention", "part": "Forward"},
            4.25: {"impl": "PyTorch Standard Attention", "part": "Forward + Backward"}}),
        ("flash-attention v2 attention.forward", flash_2(), {170.11: FLASH2}),
        ("flash-attention v2 attention.backward", flash_2(), {120.22: FLASH2}),
        ("flash-attention v2 attention.both", flash_2(), {131.33: FLASH2}),
        ("bytetransformer bert bert.bytetransformer", bytetransformer(), {10.24: {"batch_size": 16, "seqlen": 1024}}),
        ("fastertransformer bert bert.pytorch", fastertransformer(), {5.77: LARGEST}),
        ("fastertransformer bert bert.fastertransformer", fastertransformer(), {1.12: LARGEST}),
        ("fastertransformer bert bert.effective", fastertransformer(), {1.33: LARGEST}),
        ("fastertransformer bert-cpp bert.cpp", fastertransformer_cpp(), {
            4.0: {"remove_padding": 1, "batch_size": 8, "seq_len": 128}}),
        ("turbotransformers bert bert.throughput", turbo(10, 40, 80, 120), {25.0: TURBO}),
    ],
)  # fmt: skip
def test_a_number_has_its_metric_and_parameters(name: str, text: str, samples: dict[float, dict]):
    recipe, benchmark, metric = name.split()
    every = [f for f in numbers(recipe, benchmark, text) if f.metric == metric]
    for sample, params in samples.items():
        (number,) = [f for f in every if params.items() <= f.params.items()]
        assert number.samples == (sample,)


def test_numbers_of_a_run_that_failed_are_missing_and_no_time():
    with pytest.raises(WorkFailed, match="46 measurements; a complete run prints 48"):
        numbers("thgnn", "figure7", "".join(figure7().splitlines(keepends=True)[:-1]))
    # The last line of a failed run is no time.
    failed = bytetransformer().replace("time costs:    10.24 ms\n", "RuntimeError: CUDA error\n", 1)
    with pytest.raises(WorkFailed, match="84 measurements"):
        numbers("bytetransformer", "bert", failed)
    complete = numbers("flash-attention", "v2", flash_2())
    assert {f.params["impl"] for f in complete} == {"Flash2", "Pytorch"} and len(complete) == 144 - 2
    assert min(sample for f in complete for sample in f.samples) > 0


def test_units_and_the_cases_of_claims():
    complete = numbers("thgnn", "figure7", figure7())
    assert {f.unit for f in complete if f.metric == "train.device-memory"} == {"MB"}
    assert {f.unit for f in numbers("turbotransformers", "bert", turbo(10, 40, 80, 120))} == {"requests/s"}
    for claim in target("thgnn").recipe.claims:
        assert claim.benchmark != "figure7" or any(claim.params.items() <= f.params.items() for f in complete), claim
