"""One cell of the speed-up grid: the plan that a search found against every baseline, in turns."""

import statistics
from typing import Any, Callable, Dict, List, NamedTuple

import torch

from . import timing
from .baselines import COMPILED, EAGER, baselines, gemms
from .measure import Bench
from .plans import ALL_FUSED, Plan

METRIC = "operator_fusion.forward"
OURS = "ours"


class Cell(NamedTuple):
    """`speedup`: over the better of eager and the compiled layer. `bound`: what it would be if only GEMMs took time."""

    plan: Plan
    speedup: timing.Ratio
    rival: str
    bound: float
    gemm_gflops: float
    milliseconds: Dict[str, float]
    samples: timing.Samples

    def records(self, params: Dict[str, Any]) -> List[Dict[str, Any]]:
        """In the form of the project's benchmark records."""
        found = []
        for name, values in self.samples.items():
            about = {**params, "impl": name, "plan": self.plan.value if name == OURS else ALL_FUSED.value}
            samples = [float(f"{value:.6g}") for value in values]
            found.append({"metric": METRIC, "unit": "ms", "samples": samples, "params": about})
        return found


def cell(bench: Bench, plan: Plan, report: Callable[[str], None], rounds: int = 11, budget_s: float = 120.0) -> Cell:
    """Checks every function against the unfused layer, then times them. Raises WrongResult."""
    functions = {OURS: bench.forward(plan), **baselines(bench, report)}
    for name, function in functions.items():
        bench.check(name, function)
    with torch.no_grad():
        samples = timing.interleaved({**functions, **gemms(bench)}, bench.shape.device, rounds, budget_s)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    rival = min((EAGER, COMPILED), key=lambda name: medians[name])
    return Cell(
        plan,
        timing.ratio(samples[rival], samples[OURS]),
        rival,
        medians[rival] / medians["gemms"],
        bench.shape.gemm_flop / medians["gemms"] / 1e6,
        medians,
        samples,
    )
