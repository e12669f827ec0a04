"""The search that XGBoost guides: predict every plan, propose where the expected gain is largest."""

import functools
import math
import random
from typing import Any, List

from .. import plans, predictor
from ..jobs import Job
from ..plans import Plan
from .strategy import Strategy

BEGIN = 16  # plans before the first model, half of them with the hand-written attention
BATCH = 8  # plans between two models
MODELS = 5
SMALLEST = 1e-3  # deviation of a logarithm: models that agree are not certain


class Boosting(Strategy):
    """Predictors trained on resampled measurements disagree where little is known; their spread gives the gain."""

    name = "xgboost"

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._rng = random.Random(seed)

    def propose(self, count: int) -> List[Job]:
        if len(self.seen) < BEGIN:
            return list(self._first())
        space = _space()
        gains = self._gains()
        gains[[space.index[plan] for plan in self.seen]] = 0
        ranked = [int(i) for i in (-gains).argsort()[: 4 * BATCH] if gains[i] > 0]
        drawn: List[int] = []
        while ranked and len(drawn) < min(count, BATCH):
            choice = self._rng.choices(ranked, [gains[i] for i in ranked])[0]
            ranked.remove(choice)
            drawn.append(choice)
        return [space.plans[i] for i in drawn]

    def _first(self) -> List[Plan]:
        by_hand = [plan for plan in _space().plans if plan.uses_attention]
        rest = [plan for plan in _space().plans if not plan.uses_attention]
        return self._rng.sample(by_hand, BEGIN // 2) + self._rng.sample(rest, BEGIN - BEGIN // 2)

    def _gains(self) -> Any:
        """Of every plan the expected improvement on the best, for normally distributed logarithms: an array."""
        import numpy
        from scipy.stats import norm

        lines = list(self.seen.items())
        guesses = []
        for number in range(MODELS):
            drawn = self._rng.choices(lines, k=len(lines))
            model = predictor.Predictor.train(drawn, seed=self.seed * MODELS + number)
            guesses.append(model.booster.predict(_space().matrix))
        deviation = numpy.maximum(numpy.std(guesses, axis=0), SMALLEST)
        gain = math.log(self.best()[1]) - numpy.mean(guesses, axis=0)
        return gain * norm.cdf(gain / deviation) + deviation * norm.pdf(gain / deviation)


class _Space:
    """Every plan, as the models take them."""

    def __init__(self) -> None:
        self.plans = plans.plans_that_differ()
        self.index = {plan: number for number, plan in enumerate(self.plans)}
        self.matrix = predictor.matrix(self.plans)


@functools.lru_cache(maxsize=None)
def _space() -> _Space:
    return _Space()
