"""Which job runs where: one on each GPU, one on a machine without; failures elsewhere; places that fail."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace

import pytest

from reprokit.sweep.bench_process import ProcessResult
from reprokit.sweep.places import PlaceRunner
from reprokit.sweep.runner import JobPlace
from tests.support.sweeps import jobs

TWO_GPUS = JobPlace("g", "g", ("0", "1"))
PLAIN = JobPlace("p", "p")


class Machines:
    """Remembers who ran what, and how many at once. Every job of a place or label in `lost` is lost."""

    def __init__(self, *places: JobPlace, lost: tuple[str, ...] = ()) -> None:
        self.places, self.lost = list(places), lost
        self.ran: list[tuple[str, str]] = []
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.notes: list[str] = []
        self._lock = threading.Lock()
        self.runner = PlaceRunner(lambda: self.places, self.measure, lambda: None, self.notes.append)

    def measure(self, job, place, device):
        with self._lock:
            self.ran.append((place.key, device))
            self.now[place.key, device] += 1
            self.now[place.key] += 1
            for key in self.now:
                self.most[key] = max(self.most[key], self.now[key])
        time.sleep(0.01)
        with self._lock:
            self.now[place.key, device] -= 1
            self.now[place.key] -= 1
        return ProcessResult("", "lost", True) if {place.key, job.label} & {*self.lost} else ProcessResult("done")

    def results(self, *submitted):
        self.runner.submit(submitted)
        return list(self.runner.results())


def test_each_gpu_runs_one_job_at_a_time():
    found = Machines(TWO_GPUS)
    assert len(found.results(*jobs(20, gpu="required"))) == 20
    assert found.most == {("g", "0"): 1, ("g", "1"): 1, "g": 2}


@pytest.mark.parametrize("place", [TWO_GPUS, PLAIN])
def test_a_job_without_a_gpu_has_its_machine_to_itself(place):
    found = Machines(place)
    assert len(found.results(*jobs(10), *jobs(10, gpu="optional"))) == 20
    assert found.most[place.key, ""] == 1
    assert found.most[place.key] == (2 if place.gpus else 1)


def test_machines_run_side_by_side():
    found = Machines(PLAIN, JobPlace("q", "q"))
    found.results(*jobs(20))
    assert {key for key, _ in found.ran} == {"p", "q"}


def test_a_job_that_needs_a_gpu_waits_for_no_machine_without():
    answers = Machines(PLAIN).results(*jobs(2, gpu="required"), *jobs(1))
    assert Counter((each.error, each.final) for each in answers) == {("no machine has a GPU", True): 2, ("", False): 1}


def test_a_place_to_avoid_is_used_only_where_there_is_no_other():
    found = Machines(PLAIN, JobPlace("q", "q"))
    found.results(*jobs(5, avoid=("p",)))
    assert {key for key, _ in found.ran} == {"q"}
    found = Machines(PLAIN)
    assert [each.output for each in found.results(*jobs(1, avoid=("p",)))] == ["done"]


def test_a_place_that_loses_three_jobs_gets_no_more():
    found = Machines(PLAIN, JobPlace("q", "q"), lost=("p",))
    answers = found.results(*jobs(20))
    assert [key for key, _ in found.ran].count("p") == 3 and sum(each.lost for each in answers) == 3
    assert found.notes == ["p gets no more jobs of x:cpu: 3 in a row were lost there: lost"]
    alone = Machines(PLAIN, lost=("p",)).results(*jobs(5))
    assert [each.error for each in alone].count("no machine is left for x:cpu") == 2


def test_a_recipe_whose_jobs_are_lost_takes_no_place_from_another_recipe():
    found = Machines(PLAIN, lost=("x:cpu",))
    answers = found.results(*jobs(5), *jobs(5, recipe="y"), *jobs(5, recipe="x", variant="cuda"))
    good = [each for each in answers if each.job.label != "x:cpu"]
    assert [each.error for each in good] == [""] * 10
    bad = Counter(each.error for each in answers if each.job.label == "x:cpu")
    assert bad == {"lost": 3, "no machine is left for x:cpu": 2}


def test_jobs_are_lost_in_a_row_only_without_one_that_runs_between():
    lost = iter([True, True, False, True, True, True])

    def measure(job, place, device):
        return ProcessResult("", "lost", True) if next(lost) else ProcessResult("done")

    runner = PlaceRunner(lambda: [PLAIN], measure, lambda: None, print)
    runner.submit(jobs(8))
    errors = [each.error for each in runner.results()]
    assert errors == ["lost", "lost", "", *["lost"] * 3, *["no machine is left for x:cpu"] * 2]


@pytest.mark.slow
def test_jobs_wait_for_a_place_that_comes_back():
    found = Machines()
    found.runner = PlaceRunner(lambda: found.places, found.measure, lambda: None, print, patience_s=60)
    threading.Timer(0.5, lambda: found.places.append(PLAIN)).start()
    assert [each.output for each in found.results(*jobs(2))] == ["done", "done"]


def test_jobs_that_are_submitted_while_results_are_read_run():
    found = Machines(PLAIN)
    found.runner.submit(jobs(1))
    seen = []
    for each in found.runner.results():
        seen.append(each.job.id)
        if len(seen) < 3:
            found.runner.submit([replace(each.job, id=f"again{len(seen)}")])
    assert seen == ["j0", "again1", "again2"]


def test_a_bug_of_a_runner_loses_the_job_and_not_the_sweep():
    def broken(job, place, device):
        raise ValueError("oops")

    runner = PlaceRunner(lambda: [PLAIN], broken, lambda: None, lambda line: None)
    runner.submit(jobs(1))
    assert [(each.error, each.lost) for each in runner.results()] == [("ValueError: oops", True)]


def test_cancel_forgets_what_waits():
    stopped = []
    runner = PlaceRunner(lambda: [PLAIN], lambda *_: ProcessResult(""), lambda: stopped.append(1), print)
    runner.submit(jobs(3))
    runner.cancel()
    assert stopped == [1] and list(runner.results()) == []
