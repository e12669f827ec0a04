"""The benchmark as reprokit runs it: correctness first, then records."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

import pytest
import torch
from fused_attention import bench, build, cases, environment, methods, timing, toolchain

pytestmark = pytest.mark.extension

SMALL = ["--device", "cpu", "--seq", "16", "--heads", "2", "--dim", "8", "--repeats", "3", "--mask"]


def lines_of(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_module_prints_nothing_but_json(workspace):
    command = [sys.executable, "-m", "fused_attention.bench", "--json", "--dtype", "float32", *SMALL, "none"]
    environment_ = {**os.environ, "PYTHONPATH": str(workspace)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment_)
    assert done.returncode == 0, done.stderr
    first, second, *records = [json.loads(line) for line in done.stdout.splitlines()]
    assert first["environment"]["torch"] == torch.__version__
    assert second["correctness"] and [record["impl"] for record in records] == ["ours", "sdpa", "naive"]


def test_records(capsys):
    assert bench.main(["--json", "--dtype", "float32", "bfloat16", *SMALL, "none", "causal", "padding"]) == 0
    first, second, *records = lines_of(capsys)
    assert {"torch", "python", "compiler", "cuda", "device", "threads", "processor"} <= set(first["environment"])
    assert all(result["ok"] and result["max_abs_err"] <= result["tolerance"] for result in second["correctness"])
    assert len(records) == 2 * 3 * 3
    for record in records:
        assert record["metric"] == "fused_attention.forward" and record["unit"] == "ms"
        assert len(record["samples"]) == 3 and min(record["samples"]) > 0
        assert record["median"] == statistics.median(record["samples"])
        assert set(record["ratio_to"]) == {"ours", "sdpa", "naive"} - {record["impl"]}
        assert record["params"]["threads"] == torch.get_num_threads()
    ours, sdpa = records[:2]
    assert ours["ratio_to"]["sdpa"] == pytest.approx(sdpa["median"] / ours["median"])


def test_table(capsys):
    assert bench.main(["--dtype", "float32", *SMALL, "window"]) == 0
    output = capsys.readouterr().out
    assert "largest error: float32" in output
    assert [line.split()[4] for line in output.splitlines()[-3:]] == ["ours", "sdpa", "naive"]


@pytest.mark.parametrize("broken", [lambda x: x * 1.01, lambda x: x * float("nan")])
def test_a_wrong_result_is_never_timed(capsys, monkeypatch, broken):
    right = methods.ours
    monkeypatch.setattr(methods, "ours", lambda inputs: broken(right(inputs)))
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


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_no_cuda_device(capsys):
    assert bench.main(["--device", "cuda"]) == 1
    assert "torch sees no CUDA device" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--seq", "0"], ["--dtype", "int8"], ["--repeats", "x"], ["--dim", "257"], ["--device", "gpu"]]
)
def test_bad_options(arguments):
    with pytest.raises(SystemExit) as failure:
        bench.main(arguments)
    assert failure.value.code == 2


def test_old_torch_has_two_methods(monkeypatch):
    monkeypatch.delattr(torch.nn.functional, "scaled_dot_product_attention")
    assert list(methods.methods(cases.inputs(cases.Case(1, 1, 4, 4, "float32", "none"), "cpu"))) == ["ours", "naive"]


@pytest.mark.parametrize("mask", cases.MASKS)
def test_all_methods_agree(mask):
    inputs = cases.inputs(cases.Case(2, 4, 40, 16, "float32", mask), "cpu")
    results = [method() for method in methods.methods(inputs).values()]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=0, atol=1e-5)


def test_samples_are_taken_in_turns():
    order = []
    functions = {name: lambda name=name: order.append(name) for name in "ab"}
    samples = timing.interleaved(functions, "cpu", repeats=4, budget_s=10)
    assert [len(values) for values in samples.values()] == [4, 4]
    turns = [name for i, name in enumerate(order) if i == 0 or order[i - 1] != name]
    assert turns == ["a", "b"] * 5


def test_the_budget_leaves_three_samples():
    samples = timing.interleaved({"a": lambda: None}, "cpu", repeats=50, budget_s=0)
    assert len(samples["a"]) == timing.MIN_SAMPLES


def test_a_method_that_torch_cannot_run_is_left_out(capsys):
    def refuse():
        raise RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'\nmore")

    assert list(bench.runnable({"ours": lambda: None, "naive": refuse})) == ["ours"]
    assert capsys.readouterr().err == "left out: naive (\"addmm_impl_cpu_\" not implemented for 'Half')\n"
    with pytest.raises(RuntimeError):
        bench.runnable({"ours": refuse})


def test_peak_memory_is_the_allocators(monkeypatch):
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
    assert timing.peak_bytes(function, "cuda") == 40
    assert timing.peak_bytes(function, "cpu") is None


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
