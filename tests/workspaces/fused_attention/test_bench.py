"""The benchmark as reprokit runs it: correctness first, then records."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

import pytest
import torch
from fused_attention import bench, build, toolchain
from fused_attention.bench import accuracy, cases, command, environment, machine, measure, methods, records, timing

from tests.support.waiting import wait_for

pytestmark = pytest.mark.compiler

SMALL = ["--device", "cpu", "--part", "grid", "--batch", "1", "--seq", "16", "--heads", "2", "--dim", "8",
         "--repeats", "3", "--threads", "1", "--quick", "--mask"]  # fmt: skip
OTHERS = {"sdpa-flash", "sdpa-math", "naive"}


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def lines_of(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def times(found):
    return [record for record in found if record.get("metric") == measure.METRIC]


def test_module_prints_nothing_but_json(workspace):
    arguments = [sys.executable, "-m", "fused_attention.bench", "--json", "--dtype", "float32", *SMALL, "none"]
    environment_ = {**os.environ, "PYTHONPATH": str(workspace)}
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment_)
    assert done.returncode == 0, done.stderr
    first, second, *found = [json.loads(line) for line in done.stdout.splitlines()]
    assert first["environment"]["torch"] == torch.__version__ and first["time"].endswith("Z")
    assert second["correctness"] and times(found)[0]["impl"] == "ours"


def test_an_interrupt_is_one_line(workspace):
    code = """
import runpy, signal
from fused_attention import build
signal.signal(signal.SIGINT, signal.default_int_handler)
build.load = lambda: signal.raise_signal(signal.SIGINT)
runpy.run_module("fused_attention.bench", run_name="__main__", alter_sys=True)
"""
    environment_ = {**os.environ, "PYTHONPATH": str(workspace)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment_)
    assert done.returncode == 130, done.stderr
    assert done.stderr.startswith("interrupted;") and len(done.stderr.splitlines()) == 1


def test_records(capsys):
    assert bench.main(["--json", "--dtype", "float32", "bfloat16", *SMALL, "none", "causal", "padding"]) == 0
    first, second, *found = lines_of(capsys)
    assert {"torch", "python", "compiler", "cuda", "device", "threads", "processor"} <= set(first["environment"])
    assert all(result["ok"] and result["max_abs_err"] <= result["tolerance"] for result in second["correctness"])
    assert "ours-packed" in {result["params"]["impl"] for result in second["correctness"]}
    # The padded batch is computed packed as well.
    assert len(times(found)) == 2 * (3 * (1 + len(OTHERS)) + 1)
    for record in times(found):
        assert record["unit"] == "ms" and len(record["samples"]) == 3 and min(record["samples"]) > 0
        assert record["median"] == statistics.median(record["samples"])
        assert (record["params"]["threads"], record["params"]["clock"]) == (1, "thread")
        assert set(record["ratio_to"]) - {"ours", "ours-packed"} == OTHERS - {record["impl"]}
        assert record["gflops"] > 0 and record["peak_share"] > 0 and record["bound"] in ("memory", "compute")
    ours, sdpa = times(found)[:2]
    assert ours["ratio_to"]["sdpa-flash"] == pytest.approx(sdpa["median"] / ours["median"], rel=1e-5)
    kinds = {record["metric"] for record in found}
    assert kinds >= {f"fused_attention.{what}" for what in ("work", "traffic", "memory", "rms_error", "max_error")}
    assert {r["params"]["dtype"] for r in found if r["metric"] == "machine.peak"} == set(cases.DTYPES)


def test_work_counts_unmasked_pairs_alone():
    dense, causal, window = (cases.inputs(cases.Case(2, 3, 64, 16, "float32", m), "cpu") for m in
                             ("none", "causal", "window"))  # fmt: skip
    assert dense.flop() == 4 * 16 * 2 * 3 * 64 * 64
    assert causal.flop() == 4 * 16 * 2 * 3 * 64 * 65 // 2
    assert window.flop() == 4 * 16 * 2 * 3 * (64 * 9 - 2 * (1 + 2 + 3 + 4))
    assert dense.compulsory_bytes() == 4 * 2 * 3 * 64 * 16 * 4
    padded = cases.inputs(cases.Case(2, 3, 50, 16, "float32", "padding"), "cpu")
    assert padded.lengths == [10, 50]
    assert padded.flop() == 4 * 16 * 3 * 50 * (10 + 50)
    assert padded.without_padding() == (4 * 16 * 3 * (10 * 10 + 50 * 50), 4 * 3 * (10 + 50) * 16 * 4)


def test_table(capsys):
    assert bench.main(["--dtype", "float32", *SMALL, "window"]) == 0
    output = capsys.readouterr().out
    assert "largest error: float32" in output and "peak       " in output
    rows = [line.split() for line in output.splitlines() if " window " in line]
    assert {row[4] for row in rows} == {"ours", *OTHERS}
    heading = next(line for line in output.splitlines() if "GFLOP/s  of peak" in line)
    # Figures end where their headings do.
    assert all(line[: heading.index("GFLOP/s") + 7].strip()[-1].isdigit() for line in output.splitlines()[-3:])


def test_a_file_is_gone_on_with(capsys, tmp_path):
    file = tmp_path / "out.jsonl"
    arguments = ["--json", "--output", str(file), "--dtype", "float32", *SMALL, "none"]
    assert bench.main(arguments) == 0
    assert file.read_text() == capsys.readouterr().out
    assert bench.main([*arguments, "causal"]) == 0
    assert {record["params"]["mask"] for record in times(lines_of(capsys))} == {"causal"}
    assert {cell.params["mask"] for cell in records.read(str(file)).cells.values()} == {"none", "causal"}
    # Killed while it wrote: what is cut off is measured again.
    whole = file.read_text()
    file.write_text(whole[: whole.index('"sdpa-flash"')])
    assert bench.main(arguments) == 0
    assert {cell.params["mask"] for cell in records.read(str(file)).cells.values()} == {"none"}


def test_records_of_another_machine_are_not_gone_on_with(capsys, tmp_path):
    torch.set_num_threads(1)
    about = {**environment.describe("cpu"), "processor": "another"}
    (tmp_path / "out.jsonl").write_text(json.dumps({"environment": about}) + "\n")
    assert bench.main(["--output", str(tmp_path / "out.jsonl"), *SMALL, "none"]) == 1
    assert "its records differ from this run in processor; name another file" in capsys.readouterr().err


@pytest.mark.parametrize("broken", [lambda x: x * 1.01, lambda x: x * float("nan")])
@pytest.mark.parametrize("which", ["ours", "packed"])
def test_a_wrong_result_is_never_timed(capsys, monkeypatch, broken, which):
    right = getattr(methods, which)
    wrong = {"ours": lambda inputs: broken(right(inputs)), "packed": lambda inputs: lambda: broken(right(inputs)())}
    monkeypatch.setattr(methods, which, wrong[which])
    assert bench.main(["--json", "--dtype", "float32", *SMALL, "none"]) == 1
    captured = capsys.readouterr()
    assert "results are wrong; nothing was timed" in captured.err
    assert len(captured.out.splitlines()) == 2


def test_a_failed_build_is_said(capsys, monkeypatch):
    def fail():
        raise build.BuildError("main.cpp:1:1: error: the cause")

    monkeypatch.setattr(build, "load", fail)
    assert bench.main(["--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "main.cpp:1:1: error: the cause" in captured.err


def test_without_a_compiler_the_kernels_are_timed_and_the_machine_is_not(capsys, monkeypatch):
    def fail():
        raise build.BuildError("no C++ compiler")

    monkeypatch.setattr(machine, "load", fail)
    assert bench.main(["--json", "--dtype", "float32", *SMALL, "none"]) == 0
    captured = capsys.readouterr()
    assert "the machine's peak is not measured: no C++ compiler" in captured.err
    (ours, *_) = times(json.loads(line) for line in captured.out.splitlines())
    assert "peak_share" not in ours and ours["peak_bytes"] is None and ours["gflops"] > 0


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


def test_the_grid_is_issue_4s():
    options = command.parse([])
    assert (options.batch, options.heads, options.dim) == ([1, 8, 16], 12, 64)
    assert {16, 64, 128, 256, 384, 512, 768, 1024, 2048} <= set(options.seq)
    assert set(options.dtype) == set(cases.DTYPES) and set(options.mask) == set(cases.MASKS)
    assert options.part == ["grid", "scaling", "layer"]


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
        if method.name == "ours-packed":
            rows = [right[i, :, :length] for i, length in enumerate(inputs.lengths)]
            torch.testing.assert_close(result, torch.cat(rows, dim=1)[None], rtol=0, atol=1e-5)
        else:
            torch.testing.assert_close(result, right, rtol=0, atol=1e-5)


@pytest.mark.parametrize("mask", [mask for mask in cases.MASKS if mask not in ("none", "causal")])
@pytest.mark.parametrize("seq", [1, 16, 77, 300])
def test_the_rule_is_the_mask(mask, seq):
    """What flex_attention computes is what the others do."""
    rule = cases.rule_of(mask, 3, seq, "cpu")
    elements = cases.mask_of(mask, 3, seq).elements(seq, seq)
    batch, row, key = torch.arange(3)[:, None, None, None], torch.arange(seq)[:, None], torch.arange(seq)
    by_rule = torch.as_tensor(rule(batch, 0, row, key)).expand(3, 1, seq, seq)
    assert torch.equal(by_rule, elements.expand(3, 1, seq, seq))


def test_a_padded_batch_is_60_percent_full():
    for batch in cases.BATCHES:
        assert sum(cases.padding_lengths(batch, 512)) / batch == pytest.approx(0.6 * 512, rel=0.01)


def test_peak_memory_is_the_allocators(monkeypatch):
    x = torch.zeros(1000, 1000)
    assert machine.peak_bytes(lambda: x + x, "cpu") == 4_000_000
    # The first sum goes when the second is there.
    assert machine.peak_bytes(lambda: ((x + x) + x).sum(), "cpu") == 8_000_000
    allocated = {"now": 100, "peak": 100}

    def function():
        allocated["peak"] = allocated["now"] + 40

    for name, replacement in {
        "synchronize": lambda: None,
        "memory_allocated": lambda: allocated["now"],
        "reset_peak_memory_stats": lambda: allocated.update(peak=allocated["now"]),
        "max_memory_allocated": lambda: allocated["peak"],
    }.items():
        monkeypatch.setattr(torch.cuda, name, replacement)
    assert machine.peak_bytes(function, "cuda") == 40


def test_ours_needs_its_result_and_naive_its_scores():
    inputs = cases.inputs(cases.Case(1, 12, 256, 64, "float32", "none"), "cpu")
    result = 12 * 256 * 64 * 4
    assert machine.peak_bytes(lambda: methods.ours(inputs), "cpu") < 2 * result
    assert machine.peak_bytes(methods.naive(inputs), "cpu") >= 2 * 12 * 256 * 256 * 4


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


def test_command_output_is_none_for_what_cannot_run():
    assert toolchain.first_line(["no-such-command"]) is None
    assert toolchain.first_line(["false"]) is None
