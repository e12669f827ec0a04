"""A plan that is run: only records of its jobs, none double, failures elsewhere and named, and an interrupt."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from reprokit.display import reporting
from reprokit.sweep.run import JobAnswer, JobPlace, records_of, run
from tests.support.sweeps import JOB, answer, jobs, output

OWN = replace(JOB, params={"N": 1, "LAYOUT": "row"})


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
            replies = self.of(job, sum(each.id == job.id for each in self.submitted))
            yield from replies if isinstance(replies, list) else [replies]

    def cancel(self):
        self.cancelled = True


def good(job):
    return JobAnswer(job, JobPlace("k1", "node1"), output(job))


def ran(of, count=3):
    runner, recorded, notes = Answers(of), [], []

    def record(name, records):
        recorded.extend((name, each.job) for each in records)

    with reporting(notes.append):
        return run(jobs(count), runner, record, lambda result: None), runner, recorded, notes


@pytest.mark.parametrize(
    "of",
    [
        lambda job, _: good(job),
        lambda job, _: [good(job), good(job), replace(good(job), error="late")],
        lambda job, _: [good(replace(job, id="foreign")), good(job)],
    ],
    ids=["one answer", "a second answer", "an answer of an unknown job"],
)
def test_each_job_is_recorded_once(of):
    result, _, recorded, notes = ran(of)
    assert (result.recorded, result.failed, notes) == (3, [], [])
    assert recorded == [("x", "j0"), ("x", "j1"), ("x", "j2")]


def test_a_failure_is_tried_elsewhere_and_named_after_three():
    def failing(job, attempt):
        return JobAnswer(job, JobPlace(f"k{attempt}", f"node{attempt}"), error=f"boom {attempt}")

    result, runner, recorded, notes = ran(lambda job, n: failing(job, n) if n < 3 else good(job), 1)
    assert result.recorded == 1 and [each.avoid for each in runner.submitted] == [(), ("k1",), ("k1", "k2")]
    assert notes[0] == "x:cpu forward N=0 is tried again: node1: boom 1" and len(recorded) == 1
    result, runner, recorded, notes = ran(failing, 1)
    (failed,) = result.failed
    assert failed.to_json()["reasons"] == ["node1: boom 1", "node2: boom 2", "node3: boom 3"]
    assert notes[-1] == "x:cpu forward N=0 failed: node3: boom 3" and recorded == [] and len(runner.submitted) == 3
    result, runner, _, _ = ran(lambda job, _: JobAnswer(job, JobPlace(""), error="no machine has a GPU", final=True), 1)
    assert result.failed[0].reasons == ["no machine has a GPU"] and len(runner.submitted) == 1


def test_a_foreign_record_counts_as_a_failure_and_is_not_recorded():
    foreign = {"output": output(OWN, recipe="other")}
    result, _, recorded, notes = ran(lambda job, n: replace(good(job), **foreign) if n == 1 else good(job), 1)
    assert result.recorded == len(recorded) == 1 and "another recipe" in notes[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupt_cancels_and_keeps_what_is_recorded(error):
    recorded = []

    def of(job, _):
        if recorded:
            raise error
        return good(job)

    runner = Answers(of)
    with pytest.raises(error):
        run(jobs(3), runner, lambda name, records: recorded.append(records), lambda result: None)
    assert len(recorded) == 1 and runner.cancelled


def changed(**changes) -> str:
    """The answer with other fields of its record, also ones that no record can have."""
    data = json.loads(output(OWN))
    data["records"][0] |= changes
    return json.dumps(data)


def test_records_get_the_job_and_the_alias_of_the_place():
    text = output(OWN, params={**OWN.params, "impl": "ours"}, node="root@secret", job="another")
    (record,) = records_of(answer(OWN, text))
    assert (record.job, record.node, record.params) == ("j", "node1", {"N": 1, "LAYOUT": "row", "impl": "ours"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "has no records"),
        ('{"records": {"0": 1}}', "has no records"),
        ('{"records": []}', "measured nothing"),
        ('{"records": [], "left_out": [{"reason": "it needs a GPU"}]}', "it needs a GPU"),
        ('{"records": [], "failed": ["x"]}', "measured nothing"),
        ('{"records": [1]}', "not a record"),
        ('{"records": [null]}', "not a record"),
        (json.dumps({"records": [{}] * 10_001}), "10001 records, more than 10000"),
        ("x" * (17 << 20), "longer than 16 MiB"),
        ('{"records": [' + "0, " * 400_000 + "0]}", "more than 300000 values"),
        (changed(recipe="y"), "another recipe: 'y', not 'x'"),
        (changed(variant="cuda"), "another variant"),
        (changed(benchmark="other"), "another benchmark"),
        (changed(command="rm -rf /"), "another command"),
        (changed(lock_hash="00"), "another lock_hash"),
        *((changed(params={"N": n, "LAYOUT": "row"}), f"other parameters: N={n}") for n in (2, True, 1.0)),
        (changed(params={"LAYOUT": "row"}), "other parameters: N=None"),
        (changed(variables={"N": True, "LAYOUT": "row"}), "other parameters: N=True"),
        *((changed(variables=OWN.params, params={"N": n, "LAYOUT": "row"}), f"rs: N={n}") for n in (2, True)),
        (changed(variables=OWN.params, params={"LAYOUT": "row"}), "other parameters: N=None"),
        *((changed(samples=samples), "not a record") for samples in ([], [float("nan")], [1e300])),
        (changed(seconds=-1), "not a record"),
        (changed(schema=99), "unknown schema"),
        (changed(params="\x1b[2J"), "not a record"),
        (json.dumps({"records": json.loads(output(OWN))["records"] * 2}), "two records of 'attention.forward'"),
    ],
    ids=itertools.count(),
)
def test_hostile_foreign_double_and_huge_answers_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        records_of(answer(OWN, text))


def test_a_long_text_of_a_worker_is_cut():
    with pytest.raises(ValueError) as refused:
        records_of(answer(OWN, changed(recipe="\x1b" * 100_000)))
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(("value", "printed"), [(True, "true"), (1.0, 1), ("8", 8), (8, "8")])
def test_a_program_may_print_a_variable_in_another_way(value, printed):
    job = replace(JOB, params={"N": value})
    (record,) = records_of(answer(job, output(job, variables=job.params, params={"N": printed})))
    assert record.variables == {"N": value} and record.params == {"N": printed}
