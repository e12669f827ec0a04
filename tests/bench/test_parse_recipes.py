"""What the papers' programs print, read by the parsers of their recipes: every figure, its parameters and its unit."""

from __future__ import annotations

import itertools

import pytest

from reprokit.bench.parse import Measurement, parse
from reprokit.errors import WorkFailed
from reprokit.recipe.find import target


def figures(recipe: str, benchmark: str, text: str) -> tuple[Measurement, ...]:
    return parse(target(recipe).recipe.benchmarks[benchmark].parse, text).measurements


def one(found: tuple[Measurement, ...], metric: str, **params: object) -> float:
    """The only sample of the only figure with this metric and these parameters."""
    (figure,) = [f for f in found if f.metric == metric and params.items() <= f.params.items()]
    (sample,) = figure.samples
    return sample


def syncfree(mask: str) -> str:
    return (
        "batch_size    :     8 \nlayer_num     :     1 \nseq_len       :   256 \nhead_num      :    12 \n"
        "--------------------- Argument ---------------------\n"
        "Mean diff ours: 0.00000012\nMean diff jit : 0.00000000\n"
        f"Base({mask}_mask) time costs:  \t1.234 ms / iter\n"
        f"Jit ({mask}_mask) time costs:  \t1.111 ms / iter\n"
        f"Fuse({mask}_mask) time costs:  \t0.555 ms / iter\n"
    )


def test_atoffer_attention():
    found = figures("atoffer", "attention", syncfree("Strided") + syncfree("Fixed"))
    assert one(found, "mha.atoffer", mask="Fixed", batch_size=8, seq_len=256) == 0.555
    assert one(found, "mha.native", mask="Strided") == 1.234 and one(found, "mha.jit", mask="Strided") == 1.111
    with pytest.raises(WorkFailed, match="3 measurements; a complete run prints 6"):
        figures("atoffer", "attention", syncfree("Strided"))


SWEEP = list(itertools.product(["Strided", "Fixed"], [1, 8, 16], [64, 128, 256, 384, 512, 768, 1024]))


def test_atoffer_figures_9_to_12():
    attention = "".join(
        f"{mask} bs:{batch} Seqlen:{length} {name} time costs:  \t{length / batch:.3f} ms / iter\n"
        for mask, batch, length in SWEEP
        for name in ("Base", "Jit", "Ours")
    )
    found = figures("atoffer", "figures9-10", attention)
    assert len(found) == 126 and one(found, "mha.atoffer", mask="Fixed", batch_size=16, seq_len=1024) == 64
    forward = "".join(
        f"{mask} bs:{batch} Seqlen:{length} {name} time costs: {length / batch} ms\n"
        for mask, batch, length in SWEEP
        for name in ("atoffer", "jit", "native")
    )
    found = figures("atoffer", "figures11-12", forward)
    assert len(found) == 126 and one(found, "end2end.native", mask="Strided", batch_size=8, seq_len=64) == 8


def test_atoffer_search():
    searches = "".join(
        f"strategy: {file}\nround: 1  iter: 1  time_value: 9.5 \tvalue: 41115 4 [2, 6, 8, 9]\n"
        f"Result have been stored in ./search_result/1_rd_seq64_Time.csv !\n\n{says} time costs:  \t321.5 s\n{more}"
        "Global Min Time: 8.125 \tGlobal best Config: 41115\n"
        for file, says, more in (
            ("search1_random", "Random search", ""),
            ("search2_simulated_an", "SA search", ""),
            ("search3_ours", "Our probability search", "Mask_id: 1 \tSeqlen: 64\n"),
        )
    )
    found = figures("atoffer", "figure13", searches)
    assert one(found, "search.time", strategy="ours") == 321.5 and one(found, "search.best", strategy="random") == 8.125
    found = figures(
        "atoffer", "search-cost", "Mask_id: 1 \tSeqlen: 256\nSingle Our probability search time costs:  \t12.3 ms\n"
    )
    assert one(found, "search.overhead", mask_id=1, seq_len=256) == 12.3


# Rows as the authors' own tables in example_data have them.
GAT = "train_GAT_{impl},dataset={graph},head=1,f=128,latency=0.004126641750335693s,memory=1410.0MB\n"
EDGECONV = "train_edgeconv_{impl},dataset=modelnet40,k={k},batch={batch},latency=9.5e-02s,memory=2376.0MB\n"
MONET = "train_monet_{impl},dataset={graph},{setting},latency=0.006017930507659912s,memory=1386.0MB\n"
GRAPHS = ("cora", "pubmed", "citeseer", "reddit")


def figure7() -> str:
    rows = [GAT.format(impl=i, graph=g) for g in GRAPHS for i in ("our", "dgl")]
    rows += [EDGECONV.format(impl=i, k=k, batch=b) for k in (20, 40) for b in (32, 64) for i in ("our", "dgl")]
    settings = dict.fromkeys(GRAPHS, "k=3,d=3") | {"cora": "k=3,d=2", "reddit": "k=2,d=1"}
    rows += [MONET.format(impl=i, graph=g, setting=settings[g]) for g in GRAPHS for i in ("our", "dgl")]
    return "Namespace(batch_size=32)\ntrain time: 0.1\n" + "".join(rows)


def test_thgnn_training():
    found = figures("thgnn", "figure7", figure7())
    cora = {"model": "GAT", "impl": "our", "dataset": "cora", "setting": "head=1,f=128"}
    assert one(found, "train.epoch", **cora) == 0.004126641750335693
    assert one(found, "train.device-memory", **cora) == 1410
    assert one(found, "train.epoch", model="edgeconv", impl="dgl", setting="k=40,batch=64") == 0.095
    assert {f.unit for f in found if f.metric == "train.device-memory"} == {"MB"}
    for claim in target("thgnn").recipe.claims:
        assert claim.benchmark != "figure7" or any(claim.params.items() <= f.params.items() for f in found), claim


def test_thgnn_a_script_that_failed_is_missed():
    whole = figure7().splitlines(keepends=True)
    with pytest.raises(WorkFailed, match="46 measurements; a complete run prints 48"):
        figures("thgnn", "figure7", "".join(whole[:-1]))


def test_thgnn_forward():
    rows = "gat_without_{w},latency=0.0032150411605834962s,memory=1998.0MB\n"
    rows += "gat_with_{w},latency=0.00196s,memory=1498.0MB\n"
    text = rows.format(w="reorg") + rows.format(w="reorg").replace("gat", "edgeconv")
    found = figures("thgnn", "figure8", text)
    assert one(found, "forward.time", model="gat", impl="without_reorg") == 0.0032150411605834962
    assert one(found, "forward.device-memory", model="edgeconv", impl="with_reorg") == 1498
    text = "".join(rows.format(w="fusion").replace("gat", model) for model in ("gat", "edgeconv", "monet"))
    assert one(figures("thgnn", "figure9", text), "forward.time", model="monet", impl="with_fusion") == 0.00196


@pytest.mark.parametrize(("benchmark", "impls"), [("figure10", ("nofusion", "stash", "our"))])
def test_thgnn_recomputation(benchmark, impls):
    rows = GAT + MONET.replace("{setting}", "k=2,d=1")
    text = "".join(rows.format(impl=i, graph="reddit") for i in impls)
    found = figures("thgnn", benchmark, text)
    assert {f.params["impl"] for f in found} == set(impls)


def measurement(time: str) -> str:
    """How torch.utils.benchmark shows one."""
    return (
        "<torch.utils.benchmark.utils.common.Measurement object at 0x7f2c1c0f5b50>\nfn_amp(*inputs, **kwinputs)\n"
        f"  {time}\n  1 measurement, 30 runs , 8 threads\n"
    )


def test_flash_attention_1():
    text = "".join(
        f"{impl} - {part} pass\n{measurement(f'{n}.25 ms')}"
        for impl in ("FlashAttention", "PyTorch Standard Attention")
        for n, part in enumerate(("Forward", "Backward", "Forward + Backward"), 2)
    )
    found = figures("flash-attention", "v1", text)
    assert one(found, "attention.time", impl="FlashAttention", part="Forward") == 2.25
    assert one(found, "attention.time", impl="PyTorch Standard Attention", part="Forward + Backward") == 4.25


LITTLE_MEMORY = " TFLOPs/s, bwd: 0.00 TFLOPs/s, fwd + bwd: 0.00 TFLOPs/s\n"


def test_flash_attention_2():
    shapes = itertools.product(
        (False, True), (64, 128), ((32, 512), (16, 1024), (8, 2048), (4, 4096), (2, 8192), (1, 16384))
    )
    text = "".join(
        f"### causal={causal}, headdim={size}, batch_size={batch}, seqlen={length} ###\n"
        "Flash2 fwd: 170.11 TFLOPs/s, bwd: 120.22 TFLOPs/s, fwd + bwd: 131.33 TFLOPs/s\n"
        "Pytorch fwd: 40.00 TFLOPs/s, bwd: 50.00 TFLOPs/s, fwd + bwd: 46.00 TFLOPs/s\n"
        "Triton fwd: 0.00 TFLOPs/s, bwd: 0.00 TFLOPs/s, fwd + bwd: 0.00 TFLOPs/s\n"
        for causal, size, (batch, length) in shapes
    )
    # The largest shape of torch, which has no memory for the backward pass.
    text = "Pytorch fwd: 40.00".join([text.rpartition("Pytorch fwd: 40.00")[0], LITTLE_MEMORY])
    found = figures("flash-attention", "v2", text)
    flash = {"impl": "Flash2", "causal": "True", "headdim": 128, "batch_size": 1, "seqlen": 16384}
    assert [one(found, f"attention.{m}", **flash) for m in ("forward", "backward", "both")] == [170.11, 120.22, 131.33]
    assert {f.params["impl"] for f in found} == {"Flash2", "Pytorch"} and len(found) == 144 - 2
    assert min(sample for f in found for sample in f.samples) > 0


def test_bytetransformer():
    lengths = (32, *range(64, 1025, 64))
    text = "".join(
        f"batch_size {batch} seqlen {length}\ninput_lengths: tensor([37, 12])\n"
        f"max diff: tensor(0.0039, dtype=torch.float16)\ntime costs:    {length / 100:.2f} ms\n"
        for batch in (1, 2, 4, 8, 16)
        for length in lengths
    )
    found = figures("bytetransformer", "bert", text)
    assert one(found, "bert.bytetransformer", batch_size=16, seqlen=1024) == 10.24
    # The last line of a failed run is no time.
    with pytest.raises(WorkFailed, match="84 measurements"):
        figures("bytetransformer", "bert", text.replace("time costs:    10.24 ms\n", "RuntimeError: CUDA error\n", 1))


def test_fastertransformer():
    sizes = list(itertools.product((1, 8, 32), (32, 128, 384)))
    text = "".join(
        f"batch_size {batch} seq_len {length}\n[INFO] MPI is not available in this PyTorch build.\n"
        "FT Mean diff: 0.00016689300537109375\nFT Max diff:  0.0009765625\nFT Min diff:  0.0\n"
        "[INFO] HuggingFaceEnocder time costs:    5.77 ms\n[INFO] FasterTransformer time costs:     1.12 ms\n"
        "[INFO] EFF-FasterTransformer time costs: 1.33 ms\n"
        for batch, length in sizes
    )
    found = figures("fastertransformer", "bert", text)
    at = {"batch_size": 32, "seq_len": 384}
    times = [one(found, f"bert.{m}", **at) for m in ("pytorch", "fastertransformer", "effective")]
    assert times == [5.77, 1.12, 1.33]
    text = "".join(
        f"remove_padding {n}\nDevice NVIDIA A100-SXM4-80GB\nAfter allocate free 29.43 GB used 2.32 GB total 31.75 GB\n"
        f"[INFO] batch_size {batch} seq_len {length} layer 12 FT-CPP-time 4.00 ms (100 iterations) \n"
        for batch, length in sizes
        for n in (0, 1)
    )
    found = figures("fastertransformer", "bert-cpp", text)
    assert one(found, "bert.cpp", remove_padding=1, batch_size=8, seq_len=128) == 4
