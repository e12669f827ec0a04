"""Times of plans and of parts alone, each as a multiple of the whole layer under torch.compile."""

import statistics
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

import torch

from . import generate, inputs, runtime, timing
from .plans import ALL_FUSED, ATTENTION, OPERATORS, Part, Plan
from .shapes import Shape
from .weights import LayerWeights, pack, random_weights, unpack


class PartAlone(NamedTuple):
    """One part of a layer, measured without the rest. `hand_written`: by our attention, operators 3 to 7."""

    part: Part
    hand_written: bool = False


class Confirmed(NamedTuple):
    """A plan that a search chose, measured once more.

    The value by which it was chosen is the smallest of many noisy ones, so it is too small.
    """

    plan: Plan


class Versus(NamedTuple):
    """A plan beside another one in the same rounds; a pair is its time over the other's."""

    plan: Plan
    other: Plan


PARTS_BETWEEN = 4
Job = Union[Plan, PartAlone]  # what a strategy proposes
Stored = Union[Job, Confirmed, Versus]


class Measurement(NamedTuple):
    """`pairs`: times over that of the whole compiled layer, in the same rounds. `milliseconds`: the job's median."""

    pairs: List[float]
    milliseconds: float

    @property
    def value(self) -> float:
        return statistics.median(self.pairs)


def every_part() -> List[PartAlone]:
    """The 121 parts: 15 single operators, 105 segments, and the hand-written attention."""
    parts = [PartAlone((a, b)) for a in range(1, OPERATORS + 1) for b in range(a, OPERATORS + 1)]
    return [*parts, PartAlone(ATTENTION, True)]


class Bench:
    """Runs jobs of one shape. Call `close` to give back the packed weights."""

    def __init__(self, shape: Shape, layers: Optional[List[LayerWeights]] = None, rounds: int = 7) -> None:
        self.shape = shape.checked()
        self.rounds = rounds
        self.layers = layers or random_weights(shape)
        self.x = inputs.random_x(shape)
        self.mask = inputs.additive_mask(shape)
        self._activations: Optional[inputs.Activations] = None
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

    def measure(self, jobs: Sequence[Job]) -> List[Measurement]:
        """Each job beside the whole compiled layer, in every round. Plans and parts must not be mixed.

        A pair is the job's time over the mean of the layer's times before and after it. Plans have a layer's time on
        both sides of each; of parts, which take a fraction of it, four stand between two.
        """
        alone = any(isinstance(job, PartAlone) for job in jobs)
        layer = self.forward(ALL_FUSED, layers=1 if alone else None)
        group = PARTS_BETWEEN if alone else 1
        functions: Dict[Any, Callable[[], Any]] = {}
        for number, job in enumerate(jobs):
            functions[number // group] = layer
            functions[job] = self._function(job)
        functions[(len(jobs) - 1) // group + 1] = layer
        with torch.no_grad():
            samples = timing.interleaved(functions, self.shape.device, self.rounds)
        found = []
        for number, job in enumerate(jobs):
            sides = zip(samples[number // group], samples[number // group + 1])
            pairs = [own / ((before + after) / 2) for own, (before, after) in zip(samples[job], sides)]
            found.append(Measurement(pairs, statistics.median(samples[job])))
        return found

    def head_to_head(self, plans: Sequence[Plan], rounds: int) -> Dict[Plan, Measurement]:
        """The time of each plan over that of the first, in the same rounds."""
        functions = {plan: self.forward(plan) for plan in plans}
        with torch.no_grad():
            samples = timing.interleaved(functions, self.shape.device, rounds)
        return {
            plan: Measurement([own / first for own, first in zip(values, samples[plans[0]])], statistics.median(values))
            for plan, values in samples.items()
        }

    def _function(self, job: Job) -> Callable[[], Any]:
        if isinstance(job, Plan):
            return self.forward(job)
        if self._activations is None:
            with torch.no_grad():
                self._activations = inputs.Activations(self.shape, self.layers[0])
        run = runtime.load(generate.part_module(job.part, self.shape, job.hand_written))["run"]
        given, weights = self._activations.of(job.part), self.layers[0]
        return lambda: run(given, weights)
