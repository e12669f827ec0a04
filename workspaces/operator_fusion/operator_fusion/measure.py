"""Times of plans and of parts alone, each as a multiple of the whole layer under torch.compile."""

import statistics
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from . import generate, inputs, operators, runtime, timing
from .jobs import Confirmed, Measurement, PartAlone, Stored, Versus
from .plans import ALL_FUSED, NOTHING_FUSED, Plan
from .shapes import Shape
from .weights import LayerWeights, pack, random_weights, unpack

PARTS_BETWEEN = 4
CONFIRMING = 3  # times as many rounds: what searches chose differs by less than the noise of one measurement
# Largest difference of a layer's outputs, which have unit variance. Rounding errors grow with the root of the layers:
# up to 0.03 after one and 0.10 after twelve were seen in bfloat16.
TOLERANCES = {"float32": 1e-4, "bfloat16": 0.15, "float16": 2e-2}


class WrongResult(RuntimeError):
    """A plan, part or baseline differs from the unfused layer."""


class Bench:
    """Runs jobs of one shape. Call `close` to give back the packed weights."""

    batch = 8  # plans measured together

    def __init__(self, shape: Shape, layers: Optional[List[LayerWeights]] = None, rounds: int = 7) -> None:
        self.shape = shape.checked()
        self.rounds = rounds
        self.layers = layers or random_weights(shape)
        self.x = inputs.random_x(shape)
        self.mask = inputs.additive_mask(shape)
        self._activations: Optional[inputs.Activations] = None
        self._right: Optional[torch.Tensor] = None
        if shape.mask != "none":
            from fused_attention import build

            build.load()
        pack(self.layers, shape)

    def close(self) -> None:
        unpack(self.layers)

    def forward(self, plan: Plan, compiling: bool = True, layers: Optional[int] = None) -> Callable[[], Any]:
        """The forward pass of a plan as a function without arguments."""
        names = runtime.load(generate.module(plan, self.shape), compiling)
        used = self.layers[:layers]
        return lambda: names["forward"](self.x, used, self.mask)

    def check(self, name: str, function: Callable[[], Any]) -> None:
        """Run a forward pass once. Raises WrongResult where its output is not that of the unfused layer."""
        with torch.no_grad():
            if self._right is None:
                self._right = self.forward(NOTHING_FUSED, compiling=False)()
            self._compare(name, function(), self._right)

    def _compare(self, name: str, found: torch.Tensor, right: torch.Tensor) -> None:
        # Hidden scores are -inf in both. A NaN is a difference.
        difference = float((found.float() - right.float()).masked_fill(found == right, 0).abs().max())
        if not difference <= TOLERANCES[self.shape.dtype] * self.shape.layers**0.5:
            raise WrongResult(f"{name} differs from the unfused layer by {difference:g}; it was not timed")

    def measure(self, jobs: Sequence[Stored]) -> List[Measurement]:
        """Each job beside the whole compiled layer, in every round; a Versus beside its other plan.

        A pair is the job's time over the mean of the layer's times before and after it. Plans have a layer's time on
        both sides of each; of parts, which take a fraction of it, four stand between two. Raises ValueError where jobs
        of several kinds, or beside several plans, are mixed, and WrongResult before any time is taken.
        """
        if len({(type(job), getattr(job, "other", None)) for job in jobs}) != 1:
            raise ValueError("only measurements of one kind are made together")
        if isinstance(jobs[0], Versus):
            compared = [job.plan for job in jobs if isinstance(job, Versus)]
            found_plans = self.head_to_head([jobs[0].other, *compared], CONFIRMING * self.rounds)
            return [found_plans[plan] for plan in compared]
        alone = isinstance(jobs[0], PartAlone)
        layer = self.forward(ALL_FUSED, layers=1 if alone else None)
        group = PARTS_BETWEEN if alone else 1
        functions: Dict[Any, Callable[[], Any]] = {}
        for number, job in enumerate(jobs):
            functions[number // group] = layer
            functions[job] = self._part(job) if isinstance(job, PartAlone) else self._checked(_plan_of(job))
        functions[(len(jobs) - 1) // group + 1] = layer
        rounds = self.rounds * (CONFIRMING if isinstance(jobs[0], Confirmed) else 1)
        with torch.no_grad():
            samples = timing.interleaved(functions, self.shape.device, rounds)
        found = []
        for number, job in enumerate(jobs):
            sides = zip(samples[number // group], samples[number // group + 1])
            pairs = [own / ((before + after) / 2) for own, (before, after) in zip(samples[job], sides)]
            found.append(Measurement(pairs, statistics.median(samples[job])))
        return found

    def head_to_head(self, plans: Sequence[Plan], rounds: int) -> Dict[Plan, Measurement]:
        """The time of each plan over that of the first, in the same rounds."""
        functions = {plan: self._checked(plan) for plan in plans}
        with torch.no_grad():
            samples = timing.interleaved(functions, self.shape.device, rounds)
        return {
            plan: Measurement([own / first for own, first in zip(values, samples[plans[0]])], statistics.median(values))
            for plan, values in samples.items()
        }

    def _checked(self, plan: Plan) -> Callable[[], Any]:
        function = self.forward(plan)
        self.check(f"plan {plan.value}", function)
        return function

    def _part(self, job: PartAlone) -> Callable[[], Any]:
        with torch.no_grad():
            if self._activations is None:
                self._activations = inputs.Activations(self.shape, self.layers[0])
            run = runtime.load(generate.part_module(job.part, self.shape, job.hand_written))["run"]
            given, weights = self._activations.of(job.part), self.layers[0]
            names = operators.outputs(job.part)
            made = run(given, weights)
            for name, value in zip(names, made if len(names) > 1 else [made]):
                self._compare(f"{name} of part {job.part[0]}-{job.part[1]}", value, self._activations.values[name])
        return lambda: run(given, weights)


def _plan_of(job: Stored) -> Plan:
    assert isinstance(job, (Plan, Confirmed))
    return job.plan if isinstance(job, Confirmed) else job
