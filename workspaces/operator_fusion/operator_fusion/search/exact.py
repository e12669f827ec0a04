"""The exact search: measure the parts, combine them by dynamic programming, verify the best plans end to end."""

from typing import Dict, List

from ..jobs import Job, PartAlone, every_part
from ..plans import Plan, cheapest
from .strategy import Strategy

VERIFIED = 10


class Exact(Strategy):
    """At most 121 measurements of parts and 10 of plans."""

    name = "exact"

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._parts: Dict[PartAlone, float] = {}
        self._verified = False

    def propose(self, count: int) -> List[Job]:
        missing = [part for part in every_part() if part not in self._parts]
        if missing:
            return list(missing[:count])
        if self._verified:
            return []
        self._verified = True
        # Together, so that they and the whole compiled layer are measured in the same rounds.
        return list(self.candidates(VERIFIED))

    def observe(self, job: Job, value: float) -> None:
        if isinstance(job, PartAlone):
            self._parts[job] = value
        super().observe(job, value)

    def candidates(self, count: int) -> List[Plan]:
        """The plans whose parts cost least together."""
        costs = {job.part: value for job, value in self._parts.items() if not job.hand_written}
        by_hand = next((value for job, value in self._parts.items() if job.hand_written), None)
        return [plan for _, plan in cheapest(costs, by_hand, count)]
