"""The loop around a strategy: measure what it proposes, store it, show the best so far."""

import time
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Type

from ..jobs import Job, Measurement
from ..plans import Plan
from ..store import Store
from .boosting import Boosting
from .exact import VERIFIED, Exact
from .sampling import Annealing, RandomSearch, Reward
from .strategy import Strategy

STRATEGIES: Dict[str, Type[Strategy]] = {s.name: s for s in (Exact, Boosting, RandomSearch, Annealing, Reward)}
EXACT_BUDGET = 121 + VERIFIED

Measure = Callable[[Sequence[Job]], List[Measurement]]


class Progress(NamedTuple):
    """After one batch: how many measurements were used, and the best plan, None before the first."""

    used: int
    budget: int
    best: Optional[Plan]
    value: float
    seconds: float


class Result(NamedTuple):
    """`chosen`: the best plan so far after each measurement; None while only parts were measured.

    `own_s`: seconds outside of measuring and compiling. `measured`: how many were not in the store.
    """

    best: Plan
    value: float
    chosen: List[Optional[Plan]]
    measured: int
    own_s: float
    total_s: float

    @property
    def own_share(self) -> Optional[float]:
        """The share of time outside of measuring and compiling, as if nothing had been stored; None if all was."""
        if not self.measured:
            return None
        measuring = (self.total_s - self.own_s) * len(self.chosen) / self.measured
        return self.own_s / (self.own_s + measuring)


def search(
    strategy: Strategy,
    measure: Measure,
    store: Store,
    budget: int,
    progress: Callable[[Progress], None] = lambda _: None,
    batch: int = 8,
) -> Result:
    """Runs until `budget` measurements are used or the strategy proposes none. A stored measurement counts as one.

    The exact strategy takes what it needs, at most EXACT_BUDGET.
    """
    if isinstance(strategy, Exact):
        budget = EXACT_BUDGET
    begin, measuring, measured = time.perf_counter(), 0.0, 0
    chosen: List[Optional[Plan]] = []
    while len(chosen) < budget:
        left = budget - len(chosen)
        jobs = strategy.propose(min(batch, left))[:left]
        if not jobs:
            break
        missing = [job for job in jobs if store.get(job) is None]
        if missing:
            start = time.perf_counter()
            found = measure(missing)
            measuring += time.perf_counter() - start
            measured += len(missing)
            for job, measurement in zip(missing, found):
                store.put(job, measurement)
        for job in jobs:
            strategy.observe(job, store.value(job))
            chosen.append(strategy.best()[0] if strategy.seen else None)
        best, value = strategy.best() if strategy.seen else (None, float("inf"))
        progress(Progress(len(chosen), budget, best, value, time.perf_counter() - begin))
    best_plan, best_value = strategy.best()
    total = time.perf_counter() - begin
    return Result(best_plan, best_value, chosen, measured, total - measuring, total)
