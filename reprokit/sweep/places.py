"""Jobs on machines: each GPU runs one job at a time, and a job without a GPU has its machine to itself."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from reprokit.display import notify
from reprokit.sweep.bench_process import ProcessResult
from reprokit.sweep.plan import Job
from reprokit.sweep.runner import JobAnswer, JobPlace

_WHOLE = ""  # in place of a GPU: the machine as a whole
_LOOK_S = 1.0
# A place that loses so many jobs of a recipe's variant in a row gets no more of them. Jobs of others still go there:
# the cause may be the recipe, such as data that can no longer be downloaded.
_MOST_LOST = 3


class PlaceRunner:
    """A runner with a thread for each job that runs.

    `places` are those that exist now, `measure(job, place, device)` runs a job there, `stop` ends all that run.
    A job that no place can run waits `patience_s` seconds for one.
    """

    def __init__(
        self,
        places: Callable[[], Sequence[JobPlace]],
        measure: Callable[[Job, JobPlace, str], ProcessResult],
        stop: Callable[[], None],
        patience_s: float = 0.0,
    ) -> None:
        self.places, self._measure, self._stop = places, measure, stop
        self._patience_s = patience_s
        self._waiting: list[Job] = []
        self._answers: queue.SimpleQueue[tuple[JobAnswer, str]] = queue.SimpleQueue()
        self._busy: set[tuple[str, str]] = set()
        self._lost: Counter[tuple[str, str]] = Counter()

    def submit(self, jobs: Sequence[Job]) -> None:
        self._waiting += jobs

    def results(self) -> Iterator[JobAnswer]:
        since = time.monotonic()
        while self._waiting or self._busy:
            places = self.places()
            self._start(places)
            if self._busy:
                since = time.monotonic()
            elif time.monotonic() - since >= self._patience_s:
                yield from self._refused(places)
                continue
            try:
                answer, device = self._answers.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            self._busy.discard((answer.place.key, device))
            self._count(answer)
            yield answer

    def cancel(self) -> None:
        self._waiting.clear()
        self._stop()

    def _start(self, places: Sequence[JobPlace]) -> None:
        left = []
        for job in self._waiting:
            allowed = self._allowed(job, places)
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

    def _allowed(self, job: Job, places: Sequence[JobPlace]) -> list[JobPlace]:
        return [place for place in places if self._lost[place.key, job.label] < _MOST_LOST]

    def _free(self, job: Job, place: JobPlace) -> str | None:
        """The GPU for a job, `_WHOLE` for one that has the place to itself, None if it must wait."""
        used = {device for key, device in self._busy if key == place.key}
        if job.gpu != "none" and place.gpus:
            return None if _WHOLE in used else next((gpu for gpu in place.gpus if gpu not in used), None)
        return _WHOLE if _able(job, place) and not used else None

    def _run(self, job: Job, place: JobPlace, device: str) -> None:
        try:
            found = self._measure(job, place, device)
        except Exception as error:  # an error of this thread would end nothing, and the sweep would wait for ever
            found = ProcessResult("", f"{type(error).__name__}: {error}", True)
        self._answers.put((JobAnswer(job, place, found.output, found.error, found.lost), device))

    def _count(self, answer: JobAnswer) -> None:
        key, label = (answer.place.key, answer.job.label), answer.job.label
        self._lost[key] = self._lost[key] + 1 if answer.lost else 0
        if self._lost[key] == _MOST_LOST:
            lost = f"{_MOST_LOST} in a row were lost there: {answer.error}"
            notify(f"{answer.place} gets no more jobs of {label}: {lost}")

    def _refused(self, places: Sequence[JobPlace]) -> Iterator[JobAnswer]:
        """Give up the jobs that no place can run."""
        refused, self._waiting = self._waiting, []
        for job in refused:
            why = "no machine has a GPU" if self._allowed(job, places) else f"no machine is left for {job.label}"
            yield JobAnswer(job, JobPlace(""), error=why, final=True)


def _able(job: Job, place: JobPlace) -> bool:
    return job.gpu != "required" or bool(place.gpus)
