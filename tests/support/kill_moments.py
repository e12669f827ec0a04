"""Random moments at which to kill something that runs."""

from __future__ import annotations

import random
import time


class KillMoments:
    """Moments between the share `earliest` and the end of the seconds that something `takes`."""

    def __init__(self, seed: int, earliest: float, takes: float) -> None:
        self.chance, self.earliest, self.takes = random.Random(seed), earliest, takes
        self.waited = 0.0

    def wait(self) -> None:
        self.waited = self.chance.uniform(self.earliest, 1) * self.takes
        time.sleep(self.waited)

    def noted(self, running: bool) -> bool:
        """Returns `running`: whether it still ran. If not, it takes less time by now: the next moments are earlier."""
        if not running:
            self.takes = self.waited
        return running
