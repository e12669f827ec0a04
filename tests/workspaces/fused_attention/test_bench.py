"""The benchmark as reprokit runs it: correctness first, then records."""

from __future__ import annotations

import json
import statistics

import pytest
import torch
from fused_attention import bench, build
from fused_attention.bench import accuracy, cases, command, environment, machine, methods, records, timing

from tests.support.waiting import wait_for

SMALL = ["--device", "cpu", "--part", "grid", "--batch", "1", "--seq", "16", "--heads", "2", "--dim", "8",
         "--repeats", "3", "--threads", "1", "--quick", "--mask"]  # fmt: skip
FLOAT32 = ["--json", "--dtype", "float32", *SMALL]
OTHERS = {"sdpa-flash", "sdpa-math", "naive"}


@pytest.fixture(autouse=True)
def restored(threads):
    """The benchmark sets the number of threads."""


def lines_of(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def times(lines):
    return [line for line in lines if line.get("metric") == records.TIMES["forward"]]


def test_an_interrupt_is_one_line(python):
    done = python(
        "import runpy, signal; from fused_attention import build;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        "build.load = lambda: signal.raise_signal(signal.SIGINT);"
        "runpy.run_module('fused_attention.bench', run_name='__main__', alter_sys=True)"
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr.startswith("interrupted;") and len(done.stderr.splitlines()) == 1


def test_records(capsys):
    assert bench.main(["--json", "--dtype", "float32", "bfloat16", *SMALL, "none", "causal", "padding"]) == 0
    first, second, *lines = lines_of(capsys)
    assert {"torch", "python", "compiler", "cuda", "device", "threads", "processor"} <= set(first["environment"])
    assert first["environment"]["torch"] == torch.__version__ and first["time"].endswith("Z")
    assert all(result["ok"] and result["max_abs_err"] <= result["tolerance"] for result in second["correctness"])
    assert "ours-packed" in {result["params"]["impl"] for result in second["correctness"]}
    # The padded batch is computed packed as well.
    assert len(times(lines)) == 2 * (3 * (1 + len(OTHERS)) + 1)
    for record in times(lines):
        assert record["unit"] == "ms" and len(record["samples"]) == 3 and min(record["samples"]) > 0
        assert record["median"] == statistics.median(record["samples"])
        assert (record["params"]["threads"], record["params"]["clock"]) == (1, "thread")
        assert set(record["ratio_to"]) - {"ours", "ours-packed"} == OTHERS - {record["impl"]}
        assert record["gflops"] > 0 and record["peak_share"] > 0 and record["bound"] in ("memory", "compute")
    ours, sdpa = times(lines)[:2]
    assert ours["impl"] == "ours"
    assert ours["ratio_to"]["sdpa-flash"] == pytest.approx(sdpa["median"] / ours["median"], rel=1e-5)
    metrics = {record["metric"] for record in lines}
    assert metrics >= {f"fused_attention.{name}" for name in ("work", "traffic", "memory", "rms_error", "max_error")}
    assert {r["params"]["dtype"] for r in lines if r["metric"] == "machine.peak"} == set(cases.DTYPES)


def test_work_counts_unmasked_pairs_alone():
    dense, causal, window = (
        cases.inputs(cases.Case(2, 3, 64, 16, "float32", mask), "cpu") for mask in ("none", "causal", "window")
    )
    assert dense.flop() == 4 * 16 * 2 * 3 * 64 * 64
    assert causal.flop() == 4 * 16 * 2 * 3 * 64 * 65 // 2
    assert window.flop() == 4 * 16 * 2 * 3 * (64 * 9 - 2 * (1 + 2 + 3 + 4))
    assert dense.compulsory_bytes() == 4 * 2 * 3 * 64 * 16 * 4
    padded = cases.inputs(cases.Case(2, 3, 50, 16, "float32", "padding"), "cpu")
    assert padded.lengths == [10, 50]
    assert padded.flop() == 4 * 16 * 3 * 50 * (10 + 50)
    assert padded.without_padding() == (4 * 16 * 3 * (10 * 10 + 50 * 50), 4 * 3 * (10 + 50) * 16 * 4)
    for batch in cases.BATCHES:
        assert sum(cases.padding_lengths(batch, 512)) / batch == pytest.approx(0.6 * 512, rel=0.01)


def test_table(capsys):
    assert bench.main(["--dtype", "float32", *SMALL, "window"]) == 0
    output = capsys.readouterr().out
    assert "largest error: float32" in output and "peak       " in output
    rows = [line.split() for line in output.splitlines() if " window " in line]
    assert {(row[4], row[5]) for row in rows} == {("forward", name) for name in ("ours", *OTHERS)}
    heading = next(line for line in output.splitlines() if "GFLOP/s  of peak" in line)
    # Figures end where their headings do.
    assert all(line[: heading.index("GFLOP/s") + 7].strip()[-1].isdigit() for line in output.splitlines()[-3:])


def test_an_interrupted_file_is_completed(capsys, tmp_path):
    file = tmp_path / "out.jsonl"
    arguments = [*FLOAT32, "none", "--output", str(file)]

    def masks():
        return {cell.params["mask"] for cell in records.read(str(file)).cells.values()}

    assert bench.main(arguments) == 0
    assert file.read_text() == capsys.readouterr().out
    assert bench.main([*arguments, "--mask", "none", "causal"]) == 0
    assert {record["params"]["mask"] for record in times(lines_of(capsys))} == {"causal"}
    assert masks() == {"none", "causal"}
    # Killed while it wrote: what is cut off is measured again.
    text = file.read_text()
    file.write_text(text[: text.index('"sdpa-flash"')])
    assert bench.main(arguments) == 0
    assert masks() == {"none"}
    torch.set_num_threads(1)
    file.write_text(json.dumps({"environment": {**environment.describe("cpu"), "processor": "another"}}) + "\n")
    assert bench.main(arguments) == 1
    assert "its records differ from this run in processor; name another file" in capsys.readouterr().err


@pytest.mark.parametrize("factor", [1.01, float("nan")])
@pytest.mark.parametrize("name", ["ours", "packed"])
def test_a_wrong_result_is_never_timed(capsys, monkeypatch, factor, name):
    right = getattr(methods, name)
    wrong = {"ours": lambda inputs: right(inputs) * factor, "packed": lambda inputs: lambda: right(inputs)() * factor}
    monkeypatch.setattr(methods, name, wrong[name])
    assert bench.main([*FLOAT32, "none"]) == 1
    captured = capsys.readouterr()
    assert "results are wrong; nothing was timed" in captured.err
    assert len(captured.out.splitlines()) == 2


def test_a_failed_build_is_an_error_and_a_missing_peak_a_note(capsys, monkeypatch):
    def fail():
        raise build.BuildError("main.cpp:1:1: error: the cause")

    monkeypatch.setattr(machine, "load", fail)
    assert bench.main([*FLOAT32, "none"]) == 0
    captured = capsys.readouterr()
    assert "the machine's peak is not measured: main.cpp:1:1: error: the cause" in captured.err
    (ours, *_) = times(json.loads(line) for line in captured.out.splitlines())
    assert "peak_share" not in ours and ours["peak_bytes"] is None and ours["gflops"] > 0
    monkeypatch.setattr(build, "load", fail)
    assert bench.main(["--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "main.cpp:1:1: error: the cause" in captured.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_no_cuda_device(capsys):
    assert bench.main(["--device", "cuda"]) == 1
    assert "torch sees no CUDA device" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--seq", "0"], ["--dtype", "int8"], ["--repeats", "x"], ["--dim", "257"], ["--device", "gpu"], ["--part", "x"]],
)
def test_bad_options(arguments):
    with pytest.raises(SystemExit) as failure:
        bench.main(arguments)
    assert failure.value.code == 2


def test_the_grid_is_that_of_the_requirements():
    options = command.parse([])
    assert (options.batch, options.heads, options.dim) == ([1, 8, 16], 12, 64)
    assert {16, 64, 128, 256, 384, 512, 768, 1024, 2048} <= set(options.seq)
    assert set(options.dtype) == set(cases.DTYPES) and set(options.mask) == set(cases.MASKS)
    assert options.part == ["grid", "backward", "scaling", "layer"]


def test_old_torch_has_two_methods(monkeypatch):
    monkeypatch.delattr(torch.nn.functional, "scaled_dot_product_attention")
    inputs = cases.inputs(cases.Case(1, 1, 4, 4, "float32", "none"), "cpu")
    assert [method.name for method in methods.methods(inputs, with_flex=False)] == ["ours", "naive"]


@pytest.mark.parametrize("mask", cases.MASKS)
def test_all_methods_agree(mask):
    inputs = cases.inputs(cases.Case(2, 4, 150, 16, "float32", mask), "cpu")
    right = accuracy.expected(inputs)
    for method in methods.methods(inputs, with_flex=False):
        function = method.make(inputs)
        with method.context():
            result = function().double()
        expected = right
        if method.name == "ours-packed":
            rows = [right[i, :, :length] for i, length in enumerate(inputs.lengths)]
            expected = torch.cat(rows, dim=1)[None]
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("mask", [mask for mask in cases.MASKS if mask not in ("none", "causal")])
@pytest.mark.parametrize("seq", [1, 16, 77, 300])
def test_the_rule_is_the_mask(mask, seq):
    """What flex_attention computes is what the others do."""
    rule = cases.rule_of(mask, 3, seq, "cpu")
    elements = cases.mask_of(mask, 3, seq).elements(seq, seq)
    batch, row, key = torch.arange(3)[:, None, None, None], torch.arange(seq)[:, None], torch.arange(seq)
    by_rule = torch.as_tensor(rule(batch, 0, row, key)).expand(3, 1, seq, seq)
    assert torch.equal(by_rule, elements.expand(3, 1, seq, seq))


def test_peak_memory_is_the_allocators(monkeypatch):
    x = torch.zeros(1000, 1000)
    assert machine.peak_bytes(lambda: x + x, "cpu") == 4_000_000
    # The first sum goes when the second is there.
    assert machine.peak_bytes(lambda: ((x + x) + x).sum(), "cpu") == 8_000_000
    allocated = {"now": 100, "peak": 100}
    for name, replacement in {
        "synchronize": lambda: None,
        "memory_allocated": lambda: allocated["now"],
        "reset_peak_memory_stats": lambda: allocated.update(peak=allocated["now"]),
        "max_memory_allocated": lambda: allocated["peak"],
    }.items():
        monkeypatch.setattr(torch.cuda, name, replacement)
    assert machine.peak_bytes(lambda: allocated.update(peak=allocated["now"] + 40), "cuda") == 40


def test_the_peak_is_above_what_torch_reaches():
    torch.set_num_threads(1)
    x = torch.randn(512, 512)
    (samples,) = timing.interleaved({"mm": timing.Timed(lambda: x @ x, methods.no_context)}, "thread", 5, 1.0).values()
    reached = 2 * 512**3 / min(samples) / 1e6

    def is_above():
        roofs = machine.roofs("cpu")
        assert roofs.peaks["float32"] < 100 * reached and min(roofs.bandwidths.values()) > 0.1
        return 0.9 * reached < roofs.peaks["float32"] and roofs.peaks["bfloat16"] >= 0.9 * roofs.peaks["float32"]

    wait_for(is_above)  # what runs beside takes time from one measurement and not from the other


def test_a_peak_of_each_thread():
    torch.set_num_threads(1)
    machine.load()
    one = torch.ops.fused_attention_bench.peak(False)
    torch.set_num_threads(8)
    # Two threads of one core may have half of its rate each, so two threads would show too little.
    assert 2.6 * one < torch.ops.fused_attention_bench.peak(False) < 24 * one


def test_gpu_description_without_nvidia_smi(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA A100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    monkeypatch.setattr(environment, "nvidia_smi", lambda fields: None)
    assert environment.gpu() == {
        "name": "NVIDIA A100",
        "capability": "8.0",
        "driver": None,
        "clocks": {"sm": None, "memory": None, "sm_max": None},
    }
