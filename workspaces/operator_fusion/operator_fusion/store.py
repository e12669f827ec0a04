"""Measurements in a file of JSON lines, in the form of the project's benchmark records."""

import json
import os
from typing import Any, Dict, ItemsView, Optional

from . import plans
from .measure import Job, Measurement, PartAlone

METRIC = "operator_fusion.relative_time"


class Store:
    """What was measured for one shape on one machine; without a path it is kept in memory alone.

    The file may hold other shapes and machines: only records whose parameters are all the same are used. Raises
    OSError, and ValueError naming file and line for a line that is no record.
    """

    def __init__(self, path: Optional[str], params: Dict[str, Any]) -> None:
        self.path = path
        self.params = params
        self._known: Dict[Job, Measurement] = {}
        if path and os.path.exists(path):
            self._read(path)

    def get(self, job: Job) -> Optional[Measurement]:
        return self._known.get(_key(job))

    def items(self) -> ItemsView[Job, Measurement]:
        return self._known.items()

    def best(self) -> plans.Plan:
        """The fastest plan. Raises ValueError before one was measured."""
        found = {job: measurement.value for job, measurement in self._known.items() if isinstance(job, plans.Plan)}
        if not found:
            raise ValueError(
                "no plan was measured for this shape on this machine; run tune first, or name one by --plan"
            )
        return min(found, key=lambda plan: found[plan])

    def put(self, job: Job, found: Measurement) -> None:
        """Remembers and appends at once, so that a killed search loses nothing finished."""
        # As it will be read back, so that a search that goes on decides as it would have.
        found = Measurement([float(f"{pair:.6g}") for pair in found.pairs], float(f"{found.milliseconds:.6g}"))
        self._known[_key(job)] = found
        if self.path:
            with open(self.path, "a") as file:
                file.write(self.record(job, found) + "\n")

    def record(self, job: Job, found: Measurement) -> str:
        """One line. `samples` are pairwise ratios to the whole layer under torch.compile."""
        record = {
            "metric": METRIC,
            "unit": "1",
            "samples": found.pairs,
            "milliseconds": found.milliseconds,
            "params": {**self.params, **_params(job)},
        }
        return json.dumps(record)

    def _read(self, path: str) -> None:
        with open(path, "rb+") as file:
            text = file.read()
            whole = text.rfind(b"\n") + 1
            file.truncate(whole)  # the last line of a writer that was killed
        for number, line in enumerate(text[:whole].decode("utf-8", "replace").splitlines(), 1):
            try:
                record = json.loads(line)
                if record.get("metric") == METRIC:
                    params = dict(record["params"])
                    job = _job(params.pop("job"), params.pop("id"))
                    if params == self.params:
                        self._known[job] = Measurement(list(map(float, record["samples"])), record["milliseconds"])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}:{number}: no record of this search: {error!r}") from None


def _key(job: Job) -> Job:
    return job if isinstance(job, PartAlone) else job.as_run()


def _params(job: Job) -> Dict[str, str]:
    if isinstance(job, PartAlone):
        return {"job": "part", "id": f"{job.part[0]} {job.part[1]} {int(job.hand_written)}"}
    return {"job": "plan", "id": str(job.as_run().value)}


def _job(kind: str, text: str) -> Job:
    if kind == "plan":
        return plans.from_value(int(text))
    first, last, hand_written = map(int, text.split())
    return PartAlone((first, last), bool(hand_written))
