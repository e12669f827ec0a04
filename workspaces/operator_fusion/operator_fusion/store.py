"""Measurements in a file of JSON lines, in the form of the project's benchmark records."""

import json
import os
from typing import IO, Any, Dict, ItemsView, List, Optional

from . import plans
from .jobs import Confirmed, Measurement, PartAlone, Stored, Versus, every_part

METRIC = "operator_fusion.relative_time"
_BEGIN = json.dumps({"metric": METRIC})[:-1].encode()  # of a line


class Store:
    """What was measured for one shape on one machine; without a path it is kept in memory alone.

    The file may hold other shapes and machines: only records whose parameters are all the same are used. Raises
    OSError, and ValueError naming file and line for a line that is no record.
    """

    def __init__(self, path: Optional[str], params: Dict[str, Any]) -> None:
        self.path = path
        self.params = params
        self._known: Dict[Stored, Measurement] = {}
        if path and os.path.exists(path):
            self._read(path)

    def get(self, job: Stored) -> Optional[Measurement]:
        return self._known.get(_key(job))

    def pairs(self, job: Stored) -> List[float]:
        """Of a job that was measured."""
        return self._known[_key(job)].pairs

    def value(self, job: Stored) -> float:
        return self._known[_key(job)].value

    def items(self) -> ItemsView[Stored, Measurement]:
        return self._known.items()

    def best(self) -> plans.Plan:
        """The fastest plan, by confirmed times where there are any. Raises ValueError before one was measured."""
        measured = {job: measurement.value for job, measurement in self._known.items() if isinstance(job, plans.Plan)}
        confirmed = {job.plan: self.value(job) for job in self._known if isinstance(job, Confirmed)}
        values = confirmed or measured
        if not values:
            raise ValueError(
                "no plan was measured for this shape on this machine; run tune first, or name one by --plan"
            )
        return min(values, key=values.__getitem__)

    def put(self, job: Stored, measurement: Measurement) -> None:
        """Remembers and appends at once, so that a killed search loses nothing finished."""
        # As it will be read back, so that a search that goes on decides as it would have.
        pairs = [float(f"{pair:.6g}") for pair in measurement.pairs]
        measurement = Measurement(pairs, float(f"{measurement.milliseconds:.6g}"))
        self._known[_key(job)] = measurement
        if self.path:
            with open(self.path, "ab+") as file:
                _end_last_line(file)
                file.write((self.record(job, measurement) + "\n").encode())

    def record(self, job: Stored, measurement: Measurement) -> str:
        """One line. `samples` are pairwise ratios to the whole layer under torch.compile; of a Versus, to its other."""
        record = {
            "metric": METRIC,
            "unit": "1",
            "samples": measurement.pairs,
            "milliseconds": measurement.milliseconds,
            "params": {**self.params, **_params(job)},
        }
        return json.dumps(record)

    def _read(self, path: str) -> None:
        with open(path, "rb") as file:
            *lines, last = file.read().split(b"\n")
        if not _is_torn(last):
            lines.append(last)
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line.decode("utf-8", "replace"))
                if record.get("metric") == METRIC:
                    params = dict(record["params"])
                    job = _job(params.pop("job"), params.pop("id"))
                    if params == self.params:
                        self._known[job] = Measurement(
                            list(map(float, record["samples"])), float(record["milliseconds"])
                        )
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}:{number}: no record of this search: {error!r}") from None


def _is_torn(line: bytes) -> bool:
    """Whether a line without an end is the begin of a record, whose writer was killed."""
    try:
        json.loads(line.decode("utf-8", "replace"))
    except ValueError:
        return line.startswith(_BEGIN) or _BEGIN.startswith(line)
    return False


def _end_last_line(file: IO[bytes]) -> None:
    """Make the last line whole: end it if only its line end is missing, otherwise remove it."""
    file.seek(0)
    text = file.read()
    last = text[text.rfind(b"\n") + 1 :]
    if last and _is_torn(last):
        file.truncate(len(text) - len(last))
    elif last:
        file.write(b"\n")


def _key(job: Stored) -> Stored:
    if isinstance(job, Confirmed):
        return Confirmed(job.plan.as_run())
    if isinstance(job, Versus):
        return Versus(job.plan.as_run(), job.other.as_run())
    return job if isinstance(job, PartAlone) else job.as_run()


def _params(job: Stored) -> Dict[str, str]:
    job = _key(job)
    if isinstance(job, PartAlone):
        return {"job": "part", "id": f"{job.part[0]} {job.part[1]} {int(job.hand_written)}"}
    if isinstance(job, Confirmed):
        return {"job": "confirmed", "id": str(job.plan.value)}
    if isinstance(job, Versus):
        return {"job": "versus", "id": f"{job.plan.value} {job.other.value}"}
    return {"job": "plan", "id": str(job.value)}


def job_named(name: str) -> Stored:
    """By its name, such as "plan 41115": the kind and id in a record. Raises ValueError."""
    kind, _, numbers = name.partition(" ")
    try:
        job = _job(kind, numbers)
        if isinstance(job, PartAlone) and job not in every_part():
            raise ValueError
        return job
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{name!r} is no measurement; one is named such as 'plan 41115' or 'part 3 7 1'") from None


def _job(kind: str, text: str) -> Stored:
    numbers = [int(word) for word in text.split()]
    if kind == "part":
        first, last, hand_written = numbers
        return PartAlone((first, last), bool(hand_written))
    named = [plans.from_value(number) for number in numbers]
    return {"plan": lambda plan: plan, "confirmed": Confirmed, "versus": Versus}[kind](*named)
