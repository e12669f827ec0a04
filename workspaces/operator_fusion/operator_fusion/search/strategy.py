"""What every strategy offers to the loop."""

from typing import Dict, List, Tuple

from ..jobs import Job
from ..plans import Plan


class Strategy:
    """Proposes jobs and learns from their values: multiples of the whole compiled layer's time, smaller is better.

    Equal seeds and equal values give equal proposals, so that a search whose measurements are stored can go on.
    """

    name = ""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.seen: Dict[Plan, float] = {}

    def propose(self, count: int) -> List[Job]:
        """Up to `count` jobs that may be measured together; none when the search is finished."""
        raise NotImplementedError

    def observe(self, job: Job, value: float) -> None:
        if isinstance(job, Plan):
            self.seen[job.as_run()] = value

    def best(self) -> Tuple[Plan, float]:
        """Raises ValueError before the first plan was measured."""
        return min(self.seen.items(), key=lambda item: item[1])
