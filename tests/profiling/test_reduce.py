"""Traces summed up: kernels in the form that torch's profiler writes them, samples of py-spy."""

from __future__ import annotations

import json
import runpy
import sys

import pytest

from reprokit.profiling.output import reduced
from tests.support.paths import ROOT

_TRACED = ("trace", "operators")


@pytest.fixture
def summary(tmp_path, monkeypatch, capsys):
    """`summary(trace, operators)`: what the program makes of the files, read as from a container."""

    def run(trace: object, operators: list | None = None):
        (tmp_path / "trace.json").write_text(json.dumps(trace))
        if operators is not None:
            (tmp_path / "operators.json").write_text(json.dumps(operators))
        monkeypatch.setattr(sys, "argv", ["reduce.py", str(tmp_path)])
        runpy.run_path(str(ROOT / "reprokit/profiling/reduce.py"), run_name="__main__")
        return reduced(capsys.readouterr().out)

    return run


def kernel(name: str, microseconds: float, grid: list[int], **more: object) -> dict:
    args = {"grid": grid, "block": [256, 1, 1], "registers per thread": 64, "est. achieved occupancy %": 50, **more}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1.0, "dur": microseconds, "args": args}


def operator(name: str, **times: float) -> dict:
    return {"name": name, "count": 3, "cpu_self": 5.0, "cpu": 6.0, "gpu_self": 0, "gpu": 0, "flop": 0, **times}


def test_kernels_by_launch_configuration(summary):
    events = [kernel("gemm", 30, [8, 1, 1]), kernel("gemm", 10, [8, 1, 1]), kernel("gemm", 5, [2, 1, 1])]
    events += [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "dur": 900}, {"ph": "M", "name": "process_name"}]
    trace = {"traceEvents": events, "deviceProperties": [{"name": "NVIDIA A100-SXM4-40GB"}]}
    found = summary(trace, [operator("aten::mm", flop=1000, gpu=45)])
    first, second, host = found.rows
    assert (first.grid, first.count, first.seconds, first.registers, first.occupancy) == (
        (8, 1, 1), 2, pytest.approx(40e-6), 64, 50,
    )  # fmt: skip
    assert found.device == "NVIDIA A100-SXM4-40GB" and found.totals["gpu"] == pytest.approx(45e-6)
    assert (host.kind, host.on_gpu, host.work_seconds) == ("cpu", True, pytest.approx(45e-6))
    assert second.grid == (2, 1, 1)


def test_what_torch_traced_on_an_h200(summary):
    """torch 2.11: two launches each of two kernels of the extension and one of cuBLAS, and five operators."""
    trace, operators = (json.loads((ROOT / f"tests/profiling/h200/{name}.json").read_text()) for name in _TRACED)
    found = summary(trace, operators)
    simt, hopper, gemm = (row for row in found.rows if row.kind == "gpu")
    assert "attend_simt_kernel<float, 64>" in simt.name
    assert "hopper_kernel<fused_attention::BFloat16, 64>" in hopper.name
    assert (simt.grid, simt.block, simt.registers, simt.occupancy) == ((192, 1, 1), (128, 1, 1), 127, 9)
    assert (hopper.grid, hopper.count, hopper.registers, hopper.occupancy) == ((96, 1, 1), 2, 168, None)
    assert gemm.name.startswith("nvjet_sm90") and found.device == "NVIDIA H200"
    product = next(row for row in found.rows if row.name == "aten::mm")
    assert (product.flop, product.on_gpu) == (5 * 2 * 1024 * 768 * 768, True)


def test_no_more_rows_than_are_read(summary):
    events = [kernel(f"kernel {number}", number + 1, [number + 1, 1, 1]) for number in range(500)]
    found = summary({"traceEvents": events}, [operator(f"op {number}") for number in range(500)])
    assert len(found.rows) == 200 and found.rows[0].name == "kernel 499"
    assert found.totals["gpu"] == pytest.approx(sum(range(1, 501)) * 1e-6)


def test_samples_count_for_the_innermost_function(summary):
    def at(ph: str, name: str, ts: int, tid: int = 1) -> dict:
        return {"ph": ph, "name": name, "pid": 1, "tid": tid, "ts": ts, "args": {"filename": "x.py", "line": ts}}

    events = [at("B", "outer", 0), at("B", "inner", 10), at("B", "other", 0, tid=2), at("E", "inner", 70)]
    events += [at("E", "outer", 100), at("E", "other", 20, tid=2), at("E", "stray", 30, tid=3)]
    seconds = {row.name: row.seconds for row in summary(events).rows}
    assert seconds == pytest.approx({"inner (x.py)": 60e-6, "outer (x.py)": 40e-6, "other (x.py)": 20e-6})
