"""What the papers' programs print, read by the parsers of their recipes: every number, its parameters and its unit.

The texts are in the formats of the programs' repositories; rows of THGNN as the authors' tables in example_data have
them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from reprokit.bench.parse import Measurement, parse
from reprokit.errors import WorkFailed
from reprokit.recipe.find import target


def numbers(recipe: str, benchmark: str, text: str) -> tuple[Measurement, ...]:
    return parse(target(recipe).recipe.benchmarks[benchmark].parse, text).measurements


def each(form: str, **axes: Iterable) -> str:
    """The form once for each combination of the values."""
    return "".join(
        form.format(**dict(zip(axes, combination, strict=True))) for combination in itertools.product(*axes.values())
    )


SYNCFREE = (
    "batch_size    :     8 \nlayer_num     :     1 \nseq_len       :   256 \nhead_num      :    12 \n"
    "--------------------- Argument ---------------------\n"
    "Mean diff ours: 0.00000012\nMean diff jit : 0.00000000\n"
    "Base({mask}_mask) time costs:  \t1.234 ms / iter\nJit ({mask}_mask) time costs:  \t1.111 ms / iter\n"
    "Fuse({mask}_mask) time costs:  \t0.555 ms / iter\n"
)
MASKS = ("Strided", "Fixed")
ATTENTION = each(SYNCFREE, mask=MASKS)
LENGTHS = (64, 128, 256, 384, 512, 768, 1024)
FIGURE9 = each(
    "{mask} bs:{batch} Seqlen:{length} {name} time costs:  \t{length}.250 ms / iter\n",
    mask=MASKS,
    batch=(1, 8, 16),
    length=LENGTHS,
    name=("Base", "Jit", "Ours"),
)
FIGURE11 = each(
    "{mask} bs:{batch} Seqlen:{length} {name} time costs: {length}.5 ms\n",
    mask=MASKS,
    batch=(1, 8, 16),
    length=LENGTHS,
    name=("atoffer", "jit", "native"),
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
OVERHEAD = "Mask_id: 1 \tSeqlen: 256\nSingle Our probability search time costs:  \t12.3 ms\n"
GAT = "train_GAT_{impl},dataset={graph},head=1,f=128,latency=0.004126641750335693s,memory=1410.0MB\n"
EDGECONV = "train_edgeconv_{impl},dataset=modelnet40,k={k},batch={batch},latency=9.5e-02s,memory=2376.0MB\n"
MONET = "train_monet_{impl},dataset={setting},latency=0.006017930507659912s,memory=1386.0MB\n"
IMPLS = ("our", "dgl")
SETTINGS = ("cora,k=3,d=2", "pubmed,k=3,d=3", "citeseer,k=3,d=3", "reddit,k=2,d=1")
FIGURE7 = "Namespace(batch_size=32)\ntrain time: 0.1\n"
FIGURE7 += each(GAT, graph=("cora", "pubmed", "citeseer", "reddit"), impl=IMPLS)
FIGURE7 += each(EDGECONV, k=(20, 40), batch=(32, 64), impl=IMPLS) + each(MONET, setting=SETTINGS, impl=IMPLS)
FORWARD = "{model}_without_{what},latency=0.0032150411605834962s,memory=1998.0MB\n"
FORWARD += "{model}_with_{what},latency=0.00196s,memory=1498.0MB\n"
REORG = each(FORWARD, model=("gat", "edgeconv"), what=["reorg"])
FUSION = each(FORWARD, model=("gat", "edgeconv", "monet"), what=["fusion"])
FIGURE10 = each(GAT + MONET, impl=("nofusion", "stash", "our"), graph=["reddit"], setting=SETTINGS[3:])
FLASH1 = each(
    "{impl} - {part} pass\n<torch.utils.benchmark.utils.common.Measurement object at 0x7f2c1c0f5b50>\n"
    "fn_amp(*inputs, **kwinputs)\n  2.25 ms\n  1 measurement, 30 runs , 8 threads\n",
    impl=("FlashAttention", "PyTorch Standard Attention"),
    part=("Forward", "Backward", "Forward + Backward"),
)
FLASH2 = each(
    "### causal={causal}, headdim={size}, {shape} ###\n"
    "Flash2 fwd: 170.11 TFLOPs/s, bwd: 120.22 TFLOPs/s, fwd + bwd: 131.33 TFLOPs/s\n"
    "Pytorch fwd: 40.00 TFLOPs/s, bwd: 50.00 TFLOPs/s, fwd + bwd: 46.00 TFLOPs/s\n"
    "Triton fwd: 0.00 TFLOPs/s, bwd: 0.00 TFLOPs/s, fwd + bwd: 0.00 TFLOPs/s\n",
    causal=(False, True),
    size=(64, 128),
    shape=[f"batch_size={16384 // length}, seqlen={length}" for length in (512, 1024, 2048, 4096, 8192, 16384)],
)
# The largest shape of torch, which has no memory for the backward pass.
FLASH2 = FLASH2.rpartition("bwd: 50.00")[0] + "bwd: 0.00 TFLOPs/s, fwd + bwd: 0.00 TFLOPs/s\n"
BYTETRANSFORMER = each(
    "batch_size {batch} seqlen {length}\ninput_lengths: tensor([37, 12])\n"
    "max diff: tensor(0.0039, dtype=torch.float16)\ntime costs:    {length}.24 ms\n",
    batch=(1, 2, 4, 8, 16),
    length=(32, *range(64, 1025, 64)),
)
FASTERTRANSFORMER = each(
    "batch_size {batch} seq_len {length}\n[INFO] MPI is not available in this PyTorch build.\n"
    "FT Mean diff: 0.00016689300537109375\nFT Max diff:  0.0009765625\nFT Min diff:  0.0\n"
    "[INFO] HuggingFaceEnocder time costs:    5.77 ms\n[INFO] FasterTransformer time costs:     1.12 ms\n"
    "[INFO] EFF-FasterTransformer time costs: 1.33 ms\n",
    batch=(1, 8, 32),
    length=(32, 128, 384),
)
FASTERTRANSFORMER_CPP = each(
    "remove_padding {n}\nDevice NVIDIA A100-SXM4-80GB\nAfter allocate free 29.43 GB used 2.32 GB total 31.75 GB\n"
    "[INFO] batch_size {batch} seq_len {length} layer 12 FT-CPP-time 4.00 ms (100 iterations) \n",
    batch=(1, 8, 32),
    length=(32, 128, 384),
    n=(0, 1),
)
SPMM = "\nnum_col_partitions: {columns}\nnum_feat_partitions: {features}\naverage time of 5 runs: {columns}.5 sec\n"
SPMM = each(SPMM, columns=(1, 2, 4, 8, 16, 32), features=(1, 2, 4))
SPMM_CUDA = "\nnum_cuda_blocks: {blocks}\nnum_threads_per_cuda_block: {threads}\naverage time of 5 runs: 1.5 ms\n"
SDDMM_CUDA = "\nnum_cuda_blocks: {blocks}\naverage time of 5 runs: 1.5 ms\n"
BLOCKS = (64, 256, 1024, 4096, 16384, 65536, 262144)
# benchmark_helper.run_model, after what turbo_benchmark_helper prints first.
TURBO = '{{"QPS": 25.0, "elapsed": 6.0, "n": 150, "batch_size": 1, "seq_len": {length}, "framework": "{framework}", '
TURBO += '"thread_num": 2, "model_name": "bert"}}\n'
FRAMEWORKS = ("turbo", "torch")
BERT = "using CPU\n" + each(TURBO, framework=FRAMEWORKS, length=(10, 40, 80, 120))
BERT_GPU = each(TURBO, framework=FRAMEWORKS, length=(10, 20, 40, 60, 80, 100, 200, 300, 400, 500))
TACO = '{{"metric": "{name}.time", "unit": "ms", "samples": [1.5, 1.25]}}\n'

COUNTS = {
    ("atoffer", "attention"): (ATTENTION, 6),
    ("atoffer", "figures9-10"): (FIGURE9, 126),
    ("atoffer", "figures11-12"): (FIGURE11, 126),
    ("thgnn", "figure7"): (FIGURE7, 48),
    ("flash-attention", "v1"): (FLASH1, 6),
    ("bytetransformer", "bert"): (BYTETRANSFORMER, 85),
    ("fastertransformer", "bert"): (FASTERTRANSFORMER, 27),
    ("fastertransformer", "bert-cpp"): (FASTERTRANSFORMER_CPP, 18),
    ("featgraph", "spmm"): (SPMM, 18),
    ("featgraph", "spmm-reddit"): (SPMM, 18),
    ("featgraph", "spmm-cuda"): (each(SPMM_CUDA, blocks=BLOCKS[:5], threads=(32, 64)), 10),
    ("featgraph", "spmm-reddit-cuda"): (each(SPMM_CUDA, blocks=BLOCKS[:6], threads=(32, 64)), 12),
    ("featgraph", "sddmm-cuda"): (each(SDDMM_CUDA, blocks=BLOCKS[:5]), 5),
    ("featgraph", "sddmm-reddit-cuda"): (each(SDDMM_CUDA, blocks=BLOCKS), 7),
    ("taco", "kernels"): (each(TACO, name=("spmv", "add", "sddmm", "ttv", "mttkrp")), 5),
    ("turbotransformers", "bert"): (BERT, 8),
    ("turbotransformers", "bert-gpu"): (BERT_GPU, 20),
}


@pytest.mark.parametrize(("recipe", "benchmark"), COUNTS)
def test_every_number_of_a_complete_run_is_read_with_its_parameters(recipe: str, benchmark: str):
    text, count = COUNTS[recipe, benchmark]
    complete = numbers(recipe, benchmark, text)
    assert len(complete) == count == len({(f.metric, tuple(f.params.items())) for f in complete})
    half = "".join(text.splitlines(keepends=True)[: text.count("\n") // 2])
    with pytest.raises(WorkFailed, match=f"a complete run prints {count}"):
        numbers(recipe, benchmark, half)


LARGEST = {"impl": "Flash2", "causal": "True", "headdim": 128, "batch_size": 1, "seqlen": 16384}
LONGEST = {"batch_size": 32, "seq_len": 384}
OF_TURBO = {"n": 150, "batch_size": 1, "seq_len": 40, "framework": "turbo", "thread_num": 2, "model": "bert"}


@pytest.mark.parametrize(
    ("name", "text", "sample", "params"),
    [
        ("atoffer attention mha.atoffer", ATTENTION, 0.555, {"mask": "Fixed", "batch_size": 8, "seq_len": 256}),
        ("atoffer attention mha.native", ATTENTION, 1.234, {"mask": "Strided"}),
        ("atoffer attention mha.jit", ATTENTION, 1.111, {"mask": "Strided"}),
        ("atoffer figures9-10 mha.atoffer", FIGURE9, 1024.25, {"mask": "Fixed", "batch_size": 16, "seq_len": 1024}),
        ("atoffer figures11-12 end2end.native", FIGURE11, 64.5, {"mask": "Strided", "batch_size": 8, "seq_len": 64}),
        ("atoffer figure13 search.time", SEARCHES, 321.5, {"strategy": "ours"}),
        ("atoffer figure13 search.best", SEARCHES, 8.125, {"strategy": "random"}),
        ("atoffer search-cost search.overhead", OVERHEAD, 12.3, {"mask_id": 1, "seq_len": 256}),
        ("thgnn figure7 train.epoch", FIGURE7, 0.004126641750335693,
         {"model": "GAT", "impl": "our", "dataset": "cora", "setting": "head=1,f=128"}),
        ("thgnn figure7 train.epoch", FIGURE7, 0.095,
         {"model": "edgeconv", "impl": "dgl", "setting": "k=40,batch=64"}),
        ("thgnn figure7 train.device-memory", FIGURE7, 1410, {"model": "GAT", "impl": "our", "dataset": "cora"}),
        ("thgnn figure8 forward.time", REORG, 0.0032150411605834962, {"model": "gat", "impl": "without_reorg"}),
        ("thgnn figure8 forward.device-memory", REORG, 1498, {"model": "edgeconv", "impl": "with_reorg"}),
        ("thgnn figure9 forward.time", FUSION, 0.00196, {"model": "monet", "impl": "with_fusion"}),
        ("thgnn figure10 train.epoch", FIGURE10, 0.004126641750335693, {"model": "GAT", "impl": "stash"}),
        ("flash-attention v1 attention.time", FLASH1, 2.25, {"impl": "FlashAttention", "part": "Forward"}),
        ("flash-attention v2 attention.forward", FLASH2, 170.11, LARGEST),
        ("flash-attention v2 attention.backward", FLASH2, 120.22, LARGEST),
        ("flash-attention v2 attention.both", FLASH2, 131.33, LARGEST),
        ("bytetransformer bert bert.bytetransformer", BYTETRANSFORMER, 1024.24, {"batch_size": 16, "seqlen": 1024}),
        ("fastertransformer bert bert.pytorch", FASTERTRANSFORMER, 5.77, LONGEST),
        ("fastertransformer bert bert.fastertransformer", FASTERTRANSFORMER, 1.12, LONGEST),
        ("fastertransformer bert bert.effective", FASTERTRANSFORMER, 1.33, LONGEST),
        ("fastertransformer bert-cpp bert.cpp", FASTERTRANSFORMER_CPP, 4.0,
         {"remove_padding": 1, "batch_size": 8, "seq_len": 128}),
        ("turbotransformers bert bert.throughput", BERT, 25.0, OF_TURBO),
    ],
)  # fmt: skip
def test_a_number_has_its_metric_and_parameters(name: str, text: str, sample: float, params: dict):
    recipe, benchmark, metric = name.split()
    (number,) = (
        f for f in numbers(recipe, benchmark, text) if f.metric == metric and params.items() <= f.params.items()
    )
    assert number.samples == (sample,)


def test_numbers_of_a_run_that_failed_are_missing_and_no_time():
    with pytest.raises(WorkFailed, match="46 measurements; a complete run prints 48"):
        numbers("thgnn", "figure7", "".join(FIGURE7.splitlines(keepends=True)[:-1]))
    # The last line of a failed run is no time.
    failed = BYTETRANSFORMER.replace("time costs:    1024.24 ms\n", "RuntimeError: CUDA error\n", 1)
    with pytest.raises(WorkFailed, match="84 measurements"):
        numbers("bytetransformer", "bert", failed)
    complete = numbers("flash-attention", "v2", FLASH2)
    assert {f.params["impl"] for f in complete} == {"Flash2", "Pytorch"} and len(complete) == 144 - 2
    assert min(sample for f in complete for sample in f.samples) > 0


def test_units_and_the_cases_of_claims():
    complete = numbers("thgnn", "figure7", FIGURE7)
    assert {f.unit for f in complete if f.metric == "train.device-memory"} == {"MB"}
    assert {f.unit for f in numbers("turbotransformers", "bert", BERT)} == {"requests/s"}
    for claim in target("thgnn").recipe.claims:
        assert claim.benchmark != "figure7" or any(claim.params.items() <= f.params.items() for f in complete), claim
