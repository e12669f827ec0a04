"""Run jobs on this machine, or by `reprokit bench --on NODE` on nodes.

Each GPU runs one job at a time; a job without a GPU has its machine to itself.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from reprokit.config.nodes import Node
from reprokit.display import notify
from reprokit.errors import UsageError
from reprokit.host.machine import Machine
from reprokit.nodes import config, survey
from reprokit.recipe.spelling import nearest
from reprokit.sweep.bench_process import BenchProcesses, ProcessResult
from reprokit.sweep.plan import Job
from reprokit.sweep.run import JobAnswer, JobPlace

_WHOLE = ""  # instead of a GPU: the whole machine
_LIMIT_S = 30.0
# Each reported GPU gets a process on this machine; no node has more.
_MOST_GPUS = 64
# After so many lost jobs of a variant in a row, a place gets no more of that variant. It still gets other jobs: the
# cause may be the recipe, such as data that can no longer be downloaded.
_MOST_LOST = 3


class PlaceRunner:
    """A runner with a thread for each job that runs.

    `measure(job, place, device)` runs a job at a place, `stop` ends all that run.
    """

    def __init__(
        self,
        places: Sequence[JobPlace],
        measure: Callable[[Job, JobPlace, str], ProcessResult],
        stop: Callable[[], None],
    ) -> None:
        self.places, self._measure, self._stop = places, measure, stop
        self._waiting: list[Job] = []
        self._answers: queue.SimpleQueue[tuple[JobAnswer, str]] = queue.SimpleQueue()
        self._busy: set[tuple[str, str]] = set()
        self._lost: Counter[tuple[str, str]] = Counter()

    def submit(self, jobs: Sequence[Job]) -> None:
        self._waiting += jobs

    def results(self) -> Iterator[JobAnswer]:
        while self._waiting or self._busy:
            self._start()
            if not self._busy:
                yield from self._refused()
                continue
            answer, device = self._answers.get()
            self._busy.discard((answer.place.key, device))
            self._count(answer)
            yield answer

    def cancel(self) -> None:
        self._waiting.clear()
        self._stop()

    def _start(self) -> None:
        left = []
        for job in self._waiting:
            allowed = self._allowed(job)
            better = [place for place in allowed if place.key not in job.avoid and _able(job, place)]
            for place in better or allowed:
                device = self._free(job, place)
                if device is not None:
                    self._busy.add((place.key, device))
                    threading.Thread(target=self._run, args=(job, place, device), daemon=True).start()
                    break
            else:
                left.append(job)
        self._waiting = left

    def _allowed(self, job: Job) -> list[JobPlace]:
        return [place for place in self.places if self._lost[place.key, job.label] < _MOST_LOST]

    def _free(self, job: Job, place: JobPlace) -> str | None:
        """The GPU for a job, `_WHOLE` for the whole place, None if the job must wait."""
        used = {device for key, device in self._busy if key == place.key}
        if job.gpu != "none" and place.gpus:
            return None if _WHOLE in used else next((gpu for gpu in place.gpus if gpu not in used), None)
        return _WHOLE if _able(job, place) and not used else None

    def _run(self, job: Job, place: JobPlace, device: str) -> None:
        try:
            result = self._measure(job, place, device)
        except Exception as error:  # else the sweep would wait for ever
            result = ProcessResult("", f"{type(error).__name__}: {error}", True)
        self._answers.put((JobAnswer(job, place, result.output, result.error, result.lost), device))

    def _count(self, answer: JobAnswer) -> None:
        key, label = (answer.place.key, answer.job.label), answer.job.label
        self._lost[key] = self._lost[key] + 1 if answer.lost else 0
        if self._lost[key] == _MOST_LOST:
            lost = f"{_MOST_LOST} in a row were lost there: {answer.error}"
            notify(f"{answer.place} gets no more jobs of {label}: {lost}")

    def _refused(self) -> Iterator[JobAnswer]:
        """Give up the jobs that no place can run."""
        refused, self._waiting = self._waiting, []
        for job in refused:
            why = "no machine has a GPU" if self._allowed(job) else f"no machine is left for {job.label}"
            yield JobAnswer(job, JobPlace(""), error=why, final=True)


def _able(job: Job, place: JobPlace) -> bool:
    return job.gpu != "required" or bool(place.gpus)


def _gpus(count: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(min(count, _MOST_GPUS)))


def this_machine() -> PlaceRunner:
    processes = BenchProcesses()
    place = JobPlace("here", "", _gpus(len(Machine().gpus())))
    return PlaceRunner([place], lambda job, place, device: processes.run(job, device=device), processes.stop)


def nodes_of(names: Sequence[str], where: str) -> list[Node]:
    """The nodes by name. Raises UsageError for a node that is not in the user's configuration.

    The file may come from a stranger, who must not choose the addresses that the user's keys log in to.
    """
    configured = config.known_names()
    for name in names:
        if name not in configured:
            raise UsageError(
                f"{name!r} is not a node of your configuration{nearest(name, configured)}",
                where,
                "add it under `nodes:` of the configuration, or to ~/.ssh/config",
            )
    return [config.find(name) for name in dict.fromkeys(names)]


def on_nodes(nodes: Sequence[Node]) -> PlaceRunner:
    """A runner on the nodes that answer; reports the others, and second names of a machine."""
    places = []
    machines: dict[str, str] = {}
    for answer in survey.survey(nodes, _LIMIT_S):
        if answer.seen is None or answer.inventory is None:
            notify(f"{answer.node.name} is left out: {answer.error}")
            continue
        first = machines.setdefault(answer.seen.machine or answer.node.name, answer.node.name)
        if first != answer.node.name:
            notify(f"{answer.node.name} is left out: it is the same machine as {first}")
            continue
        places.append(JobPlace(answer.node.name, answer.node.name, _gpus(len(answer.seen.gpus))))
    processes = BenchProcesses()
    return PlaceRunner(
        places, lambda job, place, device: processes.run(job, on=place.key, device=device), processes.stop
    )
