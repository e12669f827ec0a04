"""A plan that is run: records as they come, failures elsewhere and named, none double, and an interrupt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reprokit.sweep.run import run
from reprokit.sweep.runner import JobAnswer, JobPlace
from tests.support.sweeps import jobs, output


class Answers:
    """A runner with the answer that `of(job, attempt)` returns."""

    def __init__(self, of) -> None:
        self.of, self.queue, self.submitted, self.cancelled = of, [], [], False

    def submit(self, jobs):
        self.submitted += jobs
        self.queue += jobs

    def results(self):
        while self.queue:
            job = self.queue.pop(0)
            attempt = sum(each.id == job.id for each in self.submitted)
            found = self.of(job, attempt)
            yield from found if isinstance(found, list) else [found]

    def cancel(self):
        self.cancelled = True


def good(job):
    return JobAnswer(job, JobPlace("k1", "node1"), output(job))


def ran(of, count=3):
    runner, recorded, notes = Answers(of), [], []
    record = lambda name, records: recorded.extend((name, each.job) for each in records)  # noqa: E731
    return run(jobs(count), runner, record, notes.append, lambda result: None), runner, recorded, notes


def test_each_job_is_recorded_once():
    result, _, recorded, notes = ran(lambda job, _: good(job))
    assert (result.recorded, result.failed, notes) == (3, [], [])
    assert recorded == [("x", "j0"), ("x", "j1"), ("x", "j2")]


def test_a_second_answer_of_a_job_is_ignored():
    result, _, recorded, _ = ran(lambda job, _: [good(job), good(job), replace(good(job), error="late")])
    assert result.recorded == len(recorded) == 3


def test_a_failure_is_tried_elsewhere():
    def of(job, attempt):
        return JobAnswer(job, JobPlace(f"k{attempt}", f"node{attempt}"), error="boom") if attempt < 3 else good(job)

    result, runner, recorded, notes = ran(of, 1)
    assert result.recorded == 1 and [each.avoid for each in runner.submitted] == [(), ("k1",), ("k1", "k2")]
    assert notes[0] == "x:cpu forward N=0 is tried again: node1: boom" and len(recorded) == 1


def test_what_fails_three_times_is_named():
    result, runner, recorded, notes = ran(
        lambda job, n: JobAnswer(job, JobPlace("k", f"node{n}"), error=f"boom {n}"), 1
    )
    (failed,) = result.failed
    assert failed.to_json()["reasons"] == ["node1: boom 1", "node2: boom 2", "node3: boom 3"]
    assert notes[-1] == "x:cpu forward N=0 failed: node3: boom 3" and recorded == [] and len(runner.submitted) == 3


def test_what_no_place_can_run_is_not_tried_again():
    result, runner, _, _ = ran(lambda job, _: JobAnswer(job, JobPlace(""), error="no machine has a GPU", final=True), 1)
    assert result.failed[0].reasons == ["no machine has a GPU"] and len(runner.submitted) == 1


def test_a_foreign_record_counts_as_a_failure_and_is_not_recorded():
    def of(job, attempt):
        return replace(good(job), output=output(job, recipe="other")) if attempt == 1 else good(job)

    result, _, recorded, notes = ran(of, 1)
    assert result.recorded == len(recorded) == 1 and "another recipe" in notes[0]


def test_an_answer_of_a_job_that_nobody_gave_is_ignored():
    result, _, recorded, _ = ran(lambda job, _: [good(replace(job, id="foreign")), good(job)])
    assert result.recorded == 3 and {job for _, job in recorded} == {"j0", "j1", "j2"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupt_cancels_and_keeps_what_is_recorded(error):
    recorded = []

    def of(job, _):
        if recorded:
            raise error
        return good(job)

    runner = Answers(of)
    with pytest.raises(error):
        run(jobs(3), runner, lambda name, records: recorded.append(records), print, lambda result: None)
    assert len(recorded) == 1 and runner.cancelled
