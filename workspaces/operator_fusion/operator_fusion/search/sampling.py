"""The strategies that need no model: random sampling, simulated annealing, and rewarded groups."""

import math
import random
from typing import Dict, List, Optional, Tuple

from .. import plans
from ..jobs import Job
from ..plans import Plan
from .strategy import Strategy


class RandomSearch(Strategy):
    """Values drawn evenly from all 65 536; plans that run code already proposed are drawn again."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._rng = random.Random(seed)
        self._proposed: Dict[Plan, None] = {}

    def propose(self, count: int) -> List[Job]:
        found: List[Job] = []
        while len(found) < count and len(self._proposed) < plans.DIFFERENT:
            plan = plans.from_value(self._rng.randrange(plans.VALUES)).as_run()
            if plan not in self._proposed:
                self._proposed[plan] = None
                found.append(plan)
        return found


class Annealing(Strategy):
    """Simulated annealing: one bit or one place changed at a time.

    A worse plan is accepted with the probability exp(-increase / temperature). The temperature is relative to the whole
    compiled layer and falls by `COOLING` with each measurement.
    """

    name = "anneal"
    START, COOLING = 0.1, 0.97

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._rng = random.Random(seed)
        self._temperature = self.START
        self._current: Optional[Tuple[Plan, float]] = None

    def propose(self, count: int) -> List[Job]:
        if self._current is None:
            return [plans.from_value(self._rng.randrange(plans.VALUES))]
        near = list(self._current[0].neighbours())
        fresh = [plan for plan in near if plan.as_run() not in self.seen]
        return [self._rng.choice(fresh or near)]

    def observe(self, job: Job, value: float) -> None:
        super().observe(job, value)
        assert isinstance(job, Plan)
        increase = value - self._current[1] if self._current else 0.0
        if increase <= 0 or self._rng.random() < math.exp(-increase / self._temperature):
            self._current = (job, value)
        self._temperature *= self.COOLING


class Reward(Strategy):
    """Groups of places changed at random, the likelier the oftener their changes helped; after AToffer (SC 2024).

    A group's score begins with the number of its patterns. After every PERIOD measurements it grows by 2**n - 1, where
    n is how many of its changes gave a new best plan.
    """

    name = "reward"
    # Bit 0 with the attention's segment, then the places where a part may begin.
    GROUPS: Tuple[Tuple[int, ...], ...] = ((), (2,), (3, 4, 5, 6, 7, 8), (9, 10), (11, 12), (13, 14, 15))
    PERIOD = 4

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._rng = random.Random(seed)
        self._scores = [float(2 ** max(1, len(group))) for group in self.GROUPS]
        self._helped = [0] * len(self.GROUPS)
        self._group = 0

    def propose(self, count: int) -> List[Job]:
        if not self.seen:
            return [plans.from_value(41115)]  # as AToffer begins
        best = self.best()[0]
        while True:
            self._group = self._rng.choices(range(len(self.GROUPS)), self._scores)[0]
            plan = self._changed(best, self.GROUPS[self._group])
            if plan not in self.seen or self._rng.random() < 0.05:
                return [plan]

    def observe(self, job: Job, value: float) -> None:
        if self.seen and value < self.best()[1]:
            self._helped[self._group] += 1
        super().observe(job, value)
        if len(self.seen) % self.PERIOD == 0:
            self._scores = [score + 2**n - 1 for score, n in zip(self._scores, self._helped)]
            self._helped = [0] * len(self.GROUPS)

    def _changed(self, plan: Plan, group: Tuple[int, ...]) -> Plan:
        if not group:
            first, last = plans.ATTENTION
            cuts = (set(plan.cuts) | {first, last + 1}) - set(range(first + 1, last + 1))
            return Plan(self._rng.random() < 0.5, tuple(sorted(cuts))).as_run()
        kept = set(plan.cuts) - set(group)
        drawn = {place for place in group if self._rng.random() < 0.5}
        return plan._replace(cuts=tuple(sorted(kept | drawn))).as_run()
