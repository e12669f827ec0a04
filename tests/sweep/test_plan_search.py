"""A search whose measurements other machines make: all of them, once each, and only what is believed."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import replace

import pytest

from reprokit.display import reporting
from reprokit.errors import WorkFailed
from reprokit.sweep.bench_process import ProcessResult
from reprokit.sweep.places import PlaceRunner
from reprokit.sweep.plan_search import ClusterSearch, by_tune, checked, grouped, of_search
from reprokit.sweep.runner import JobAnswer, JobPlace
from tests.support.paths import ROOT
from tests.support.searches import MACHINE, PROBE, Journal, answer_to, job_of, samples_of, tiny_search

OTHER = {**MACHINE, "processor": "Xeon, 2 cores"}
SEARCH = tiny_search("random")
NAMES = ("plan 7", "plan 41115")
ASKED = job_of(SEARCH, measurements=NAMES)


class Cluster:
    """Machines that answer at once with made-up times. `unlike` name another processor; `answer` changes an answer."""

    def __init__(self, count: int = 3, unlike=(), answer=None, gpus=()) -> None:
        self.places = [JobPlace(f"key{n}", f"ray-{n}", gpus) for n in range(count)]
        self.unlike, self.answer = unlike, answer
        self.ran: list[tuple[str, tuple[str, ...], str]] = []
        self.notes: list[str] = []
        self.stopped = threading.Event()
        self.runner = PlaceRunner(lambda: self.places, self.measure, self.stopped.set)

    def measure(self, job, place, device):
        self.ran.append((place.name, job.measurements, device))
        time.sleep(0.02)
        machine = OTHER if place.name in self.unlike else MACHINE
        found = self.answer and self.answer(job, place)
        return found or ProcessResult(answer_to(job, machine))

    def made(self, *names):
        """What machines measured besides the probe."""
        return [each for name, names, _ in self.ran for each in names if names != PROBE]

    def search(self, journal, **changes):
        job, ignored = job_of(journal.search, **changes), lambda done, count: None
        with reporting(self.notes.append):
            return ClusterSearch(journal.search, job, self.runner, journal.replay, journal.keep, ignored).run()


@pytest.fixture
def journal(tmp_path):
    return lambda *strategies, **options: Journal(tmp_path / "journal.jsonl", tiny_search(*strategies, **options))


@pytest.mark.slow
def test_all_searches_end_with_each_measurement_made_once(journal, monkeypatch):
    """A search on one machine with the same times chooses the same plans, which are confirmed."""
    found, cluster = journal("exact", "random", "anneal", budget=6), Cluster()
    assert cluster.search(found) == MACHINE
    assert sorted(cluster.made()) == sorted(found.names) == sorted(found.asked)
    assert len(set(found.names)) == len(found.names)
    assert Counter(name.split()[0] for name in found.names)["part"] == 121
    assert {name for name, names, _ in cluster.ran if names != PROBE} == {"ray-0", "ray-1", "ray-2"}
    assert found.reader.summary is not None and len(found.reader.summary.rows) == 3
    assert found.reader.summary.rows[0].measurements == 131
    monkeypatch.syspath_prepend(str(ROOT / "workspaces" / "operator_fusion"))
    from operator_fusion.jobs import Measurement
    from operator_fusion.search.loop import STRATEGIES, search
    from operator_fusion.store import Store, name_of

    def measure(jobs):
        return [Measurement(samples_of(name_of(job)), 1.0) for job in jobs]

    for name in ("exact", "random", "anneal"):
        result = search(STRATEGIES[name](0), measure, Store(None, {}), 6)
        assert {f"confirmed {plan.as_run().value}" for plan in result.chosen if plan} <= set(found.names)


@pytest.mark.slow
def test_seeds_of_strategies_that_go_step_by_step_are_measured_side_by_side_one_a_gpu(journal):
    found, cluster = journal("anneal", budget=4, seeds=3), Cluster(2, gpus=("0", "1"))
    cluster.search(found, gpu="required")
    assert len(set(found.asked[:3])) == 3
    places = [(name, device) for name, names, device in cluster.ran if names != PROBE]
    assert {device for _, device in places} == {"0", "1"} and len(set(places[:3])) == 3


@pytest.mark.slow
def test_a_search_that_was_stopped_goes_on_and_other_machines_share_no_measurement(journal):
    first, second = journal("random"), journal("random")
    keep, kept = first.keep, []

    def interrupted(records):
        keep(records)
        kept.extend(records)
        if len(kept) >= 4:
            raise KeyboardInterrupt

    first.keep = interrupted
    cluster = Cluster()
    with pytest.raises(KeyboardInterrupt):
        cluster.search(first)
    assert cluster.stopped.is_set()
    before = first.names
    assert 4 <= len(before) < 12
    again = Cluster()
    again.search(second)
    assert second.reader.summary is not None
    assert not {*again.made()} & {*before} and sorted(second.names) == sorted([*before, *again.made()])
    others = Cluster(unlike=["ray-0", "ray-1", "ray-2"])
    others.search(journal("random"))
    assert sorted(others.made()) == sorted([*before, *again.made()])


@pytest.mark.slow
def test_machines_unlike_most_others_are_excluded_by_name(journal):
    def later(job, place):
        return ProcessResult(answer_to(job, OTHER)) if place.name == "ray-1" and job.measurements != PROBE else None

    def processors():
        return {json.loads(line)["params"]["processor"] for line in found.file.open()}

    found, cluster = journal("random"), Cluster(4, unlike=["ray-1"], answer=None)
    assert cluster.search(found) == MACHINE
    assert {name for name, names, _ in cluster.ran if names != PROBE} == {"ray-0", "ray-2", "ray-3"}
    left_out = "ray-1 is left out: processor 'Xeon, 2 cores' instead of 'EPYC, 2 cores'"
    assert [note for note in cluster.notes if "left out" in note] == [left_out]
    assert processors() == {MACHINE["processor"]}
    # One that turns out to be unlike later.
    found.file.unlink()
    found, cluster = journal("random"), Cluster(answer=later)
    cluster.search(found)
    assert any("ray-1: it is unlike the machines of this search: processor 'Xeon" in note for note in cluster.notes)
    assert processors() == {MACHINE["processor"]} and sorted(found.names) == sorted(found.asked)


def test_a_measurement_that_fails_everywhere_is_named_and_the_others_are_kept(journal):
    def answer(job, place):
        return ProcessResult("", "no memory") if found.asked[:1] == [*job.measurements[:1]] else None

    found, cluster = journal("random"), Cluster(answer=answer)
    with pytest.raises(WorkFailed, match=r"1 of 3 jobs failed, the first: .*: ray-\d: no memory") as error:
        cluster.search(found)
    assert "same command" in error.value.hint
    assert len(found.names) == len(found.asked) - 4
    failed = [name for name, names, _ in cluster.ran if found.asked[0] in names]
    assert len(set(failed)) == 3


def test_no_machine_that_measures_is_an_error(journal):
    lost = Cluster(answer=lambda job, place: ProcessResult("", "no engine", True))
    with pytest.raises(WorkFailed, match=r"no machine of the cluster can measure: .*no engine"):
        lost.search(journal("random"))
    with pytest.raises(WorkFailed, match="no machine has a GPU"):
        Cluster().search(journal("random"), gpu="required")


def test_a_program_that_asks_again_is_stopped(journal):
    found = journal("random")
    found.keep = lambda records: None
    with pytest.raises(WorkFailed, match="asks for a measurement that it was given"):
        Cluster().search(found)


def checked_answer(text, **changes):
    return checked(JobAnswer(replace(ASKED, **changes), JobPlace("k", "ray-1"), text), SEARCH, MACHINE)


def test_an_honest_answer_is_believed():
    records = checked_answer(answer_to(ASKED))
    assert [record.params["id"] for record in records] == ["7", "41115"]
    assert {record.node for record in records} == {"ray-1"}


VERSION, TIMES = "another version of the search program", "times that are none"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": "x"}, "not a measurement of the search"),
        ({"unit": "s"}, "not a measurement of the search"),
        *(({"samples": samples}, TIMES) for samples in ([0.0], [1.0, -1.0], [1e9], [1.0] * 1001)),
        ({"samples": ["nan"]}, "record:1"),
        *(({"files": files}, VERSION) for files in ({}, {"operator-fusion": "00" * 32})),
        ({"command": "python3 -m operator_fusion tune --batch=1"}, "another command"),
        ({"lock_hash": "2e"}, "another lock_hash"),
        ({"benchmark": "\x1b[2J"}, "another benchmark"),
        ({"params": {"batch": 3}}, "other parameters: batch=3"),
        ({"params": {"threads": True}}, "other parameters: threads"),
        ({"params": {"more": 1}}, "other parameters"),
        ({"params": {"weights": "bert"}}, "other parameters"),
        ({"params": {"torch": "2.12.0"}}, "unlike the machines of this search: torch '2.12.0' instead of '2.13.0"),
        ({"params": {"instruction_sets": "avx2 avx512f"}}, "unlike"),
        *(({"params": {"processor": name}}, "names no machine") for name in (7, "x" * 301)),
        *(({"params": params}, "other measurements") for params in ({"id": "8"}, {"job": "part"}, {"id": 7})),
    ],
)
def test_an_answer_of_something_else_is_refused(changes, message):
    data = json.loads(answer_to(ASKED))
    params = changes.get("params", {})
    data["records"] = [{**record, **changes, "params": record["params"]} for record in data["records"]]
    data["records"][0]["params"] |= params
    with pytest.raises(ValueError, match=message):
        checked_answer(json.dumps(data))


def test_too_few_too_many_and_mixed_answers_and_another_image_are_refused():
    one, two = json.loads(answer_to(ASKED))["records"]
    for records in ([one], [one, two, {**two, "params": {**two["params"], "id": "9"}}], [one, one]):
        with pytest.raises(ValueError, match=r"other measurements|two records"):
            checked_answer(json.dumps({"records": records}))
    with pytest.raises(ValueError, match="other parameters"):
        checked_answer(json.dumps({"records": [one, {**two, "params": {}}]}))
    # Without a lock the image must be the same.
    data = json.loads(answer_to(replace(ASKED, lock_hash="")))
    assert checked_answer(json.dumps(data), lock_hash="")
    data["records"][0]["image_digest"] = "sha256:" + "00" * 32
    with pytest.raises(ValueError, match="another image"):
        checked_answer(json.dumps(data), lock_hash="")


def test_a_job_has_one_kind_and_leaves_work_for_all():
    plans = [f"plan {n}" for n in range(20)]
    assert [len(names) for names in grouped(plans, 2)] == [8, 8, 4]
    assert [len(names) for names in grouped(plans, 20)] == [1] * 20
    assert [len(names) for names in grouped(plans, 0)] == [8, 8, 4]
    assert grouped(["plan 1", "part 1 1 0", "plan 2"], 1) == [("plan 1", "plan 2"), ("part 1 1 0",)]
    versus = ["versus 1 9", "versus 2 9", "versus 3 8"]
    assert grouped(versus, 9) == [("versus 1 9", "versus 2 9"), ("versus 3 8",)]


def test_a_worker_runs_the_verb(monkeypatch):
    called = []
    monkeypatch.setattr(
        "reprokit.sweep.bench_process.BenchProcesses.run_command", lambda self, words: called.append(words)
    )
    by_tune(ASKED, "1")
    (words,) = called
    assert words[5:7] == ["tune", "operator-fusion:cpu"] and words[-1] == "--gpus=device=1"
    assert "--measure=plan 41115" in words and "--head-size=4" in words


def test_earlier_records_of_another_search_are_not_shown_with_it():
    record = checked(JobAnswer(ASKED, JobPlace("key"), answer_to(ASKED)), SEARCH)[0]
    assert of_search(record, SEARCH, ASKED, MACHINE)
    files = {"files": {}}, {"files": {"operator-fusion": "00" * 32}}
    locks = {"lock_hash": "2f"}, {"lock_hash": ""}
    for change in ({"command": "another shape"}, *files, *locks, {"params": OTHER}):
        assert not of_search(replace(record, **change), SEARCH, ASKED, MACHINE), change
    unlocked, other = replace(ASKED, lock_hash=""), replace(record, lock_hash="", image_digest="sha256:" + "00" * 32)
    assert of_search(replace(record, lock_hash=""), SEARCH, unlocked, MACHINE)
    assert not of_search(other, SEARCH, unlocked, MACHINE)
