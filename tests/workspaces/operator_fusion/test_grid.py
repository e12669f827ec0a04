"""A cell of the speed-up grid: every baseline computes the same layer, wrong ones are not timed."""

from __future__ import annotations

import pytest
import torch
from operator_fusion import baselines, grid, plans, runtime
from operator_fusion.measure import Bench, WrongResult
from operator_fusion.shapes import Shape

SHAPE = Shape(batch=2, seq=9, mask="strided", heads=2, head_size=4, layers=2)
# Uncompiled, so that a test costs no compiler's seconds; ours is checked compiled in test_generate.
PLAN = plans.from_segments(False, [(1, 2), (8, 12)])


@pytest.mark.compiler
@pytest.mark.parametrize("mask", ["strided", "none"])
def test_the_baselines_agree_and_are_timed_in_turns(mask: str):
    reports: list[str] = []
    with runtime.eager():
        bench = Bench(SHAPE._replace(mask=mask), rounds=3)
        cell = grid.cell(bench, PLAN, reports.append, rounds=3)
    assert {"ours", "eager", "torch.compile", "TransformerEncoderLayer", "gemms", "gemms-stock"} <= set(cell.samples)
    assert {len(values) for values in cell.samples.values()} == {3}
    assert cell.rival in ("eager", "torch.compile")
    assert cell.speedup.low <= cell.speedup.median <= cell.speedup.high
    assert cell.bound > 0 and cell.gemm_gflops > 0
    missing = {"BertLayer"} - set(cell.samples)
    assert len(reports) == len(missing)
    impls = {record["params"]["impl"]: record for record in cell.records({"seq": 9})}
    assert impls["ours"]["params"] == {"seq": 9, "impl": "ours", "plan": PLAN.value}
    assert len(impls["eager"]["samples"]) == 3


def test_a_wrong_result_is_not_timed(monkeypatch: pytest.MonkeyPatch):
    def wrong(bench: Bench, report: object) -> dict[str, baselines.Function]:
        return {"eager": lambda: torch.full_like(bench.x, float("nan")), "torch.compile": lambda: bench.x}

    monkeypatch.setattr(grid, "baselines", wrong)
    with runtime.eager(), pytest.raises(WrongResult, match="eager differs from the unfused layer by nan"):
        grid.cell(Bench(SHAPE._replace(mask="none"), rounds=3), PLAN, lambda _: None)


def test_the_gemms_alone_are_counted(monkeypatch: pytest.MonkeyPatch):
    flop = []

    def counted(x: torch.Tensor, weight: torch.Tensor, bias: None = None) -> torch.Tensor:
        flop.append(2 * x.numel() * weight.shape[0])
        return torch.nn.functional.linear(x, weight)

    monkeypatch.setattr(runtime, "linear", counted)
    baselines.gemms(Bench(SHAPE._replace(mask="none")))["gemms"]()
    assert sum(flop) == SHAPE.gemm_flop
