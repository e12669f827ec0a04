"""Random moments at which to kill something that runs."""

from __future__ import annotations

import random
import time


class KillMoments:
    """Random moments of a run that `takes` so many seconds. None is before the share `earliest` of them."""

    def __init__(self, seed: int, earliest: float, takes: float) -> None:
        self.chance, self.earliest, self.takes = random.Random(seed), earliest, takes
        self.waited = 0.0

    def wait(self) -> None:
        self.waited = self.chance.uniform(self.earliest, 1) * self.takes
        time.sleep(self.waited)

    def noted(self, running: bool) -> bool:
        """Note whether it still ran, and return that. If not, it takes less time by now; moments come earlier then."""
        if not running:
            self.takes = self.waited
        return running
