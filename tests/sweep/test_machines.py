"""Which job runs where: one on each GPU, one on a machine without; failures elsewhere; places that fail.

Jobs on real nodes: tests/nodes/integration/test_on.py.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace

import pytest

from reprokit.config.nodes import Node
from reprokit.display import reporting
from reprokit.errors import UsageError
from reprokit.host.gpu import Gpu
from reprokit.nodes import survey
from reprokit.nodes.survey import Inventory
from reprokit.oci.store import Form
from reprokit.sweep import machines as sweep_machines
from reprokit.sweep.bench_process import BenchProcesses, ProcessResult
from reprokit.sweep.machines import PlaceRunner
from reprokit.sweep.run import JobPlace
from reprokit.sweep.slurm_array import alias
from tests.support.sweeps import jobs

TWO_GPUS = JobPlace("g", "g", ("0", "1"))
PLAIN, OTHER = JobPlace("p", "p"), JobPlace("q", "q")
DONE, LOST = ProcessResult("done"), ProcessResult("", "lost", True)
NONE_LEFT = "no machine is left for x:cpu"


class Machines:
    """Remembers who ran what, and how many at once. Every job of a place or label in `lost` is lost."""

    def __init__(self, *places: JobPlace, lost: tuple[str, ...] = ()) -> None:
        self.places, self.lost = list(places), lost
        self.ran: list[str] = []
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.notes: list[str] = []
        self._lock = threading.Lock()

    def measure(self, job, place, device):
        keys = {f"{place.key}{device}", place.key}
        with self._lock:
            self.ran.append(place.key)
            self.now.update(keys)
            self.most |= self.now
        time.sleep(0.01)
        with self._lock:
            self.now.subtract(keys)
        return LOST if {place.key, job.label} & {*self.lost} else DONE

    def results(self, *submitted):
        runner = PlaceRunner(self.places, self.measure, lambda: None)
        runner.submit(submitted)
        with reporting(self.notes.append):
            return list(runner.results())


def test_a_gpu_runs_one_job_at_a_time_and_a_job_without_a_gpu_has_its_machine_to_itself():
    machines = Machines(TWO_GPUS)
    assert len(machines.results(*jobs(20, gpu="required"))) == 20
    assert machines.most == {"g0": 1, "g1": 1, "g": 2}
    for place, most in ((TWO_GPUS, {"g": 2, "g0": 1, "g1": 1}), (PLAIN, {"p": 1})):
        machines = Machines(place)
        assert len(machines.results(*jobs(10), *jobs(10, gpu="optional"))) == 20
        assert machines.most[place.key] == most[place.key]
    machines = Machines(PLAIN, OTHER)
    machines.results(*jobs(20))
    assert {*machines.ran} == {"p", "q"}


def test_a_job_that_needs_a_gpu_waits_for_no_machine_without():
    answers = Machines(PLAIN).results(*jobs(2, gpu="required"), *jobs(1))
    assert Counter((each.error, each.final) for each in answers) == {("no machine has a GPU", True): 2, ("", False): 1}


def test_a_place_to_avoid_is_used_only_where_there_is_no_other():
    machines = Machines(PLAIN, OTHER)
    machines.results(*jobs(5, avoid=("p",)))
    assert {*machines.ran} == {"q"}
    assert [each.output for each in Machines(PLAIN).results(*jobs(1, avoid=("p",)))] == ["done"]


def test_a_place_that_loses_three_jobs_in_a_row_of_one_recipe_gets_no_more_of_it():
    machines = Machines(PLAIN, OTHER, lost=("p",))
    answers = machines.results(*jobs(20))
    assert machines.ran.count("p") == 3 and sum(each.lost for each in answers) == 3
    assert machines.notes == ["p gets no more jobs of x:cpu: 3 in a row were lost there: lost"]
    answers = Machines(PLAIN, lost=("p",)).results(*jobs(5))
    assert [each.error for each in answers].count(NONE_LEFT) == 2
    answers = Machines(PLAIN, lost=("x:cpu",)).results(*jobs(5), *jobs(5, recipe="y"), *jobs(5, variant="cuda"))
    assert [each.error for each in answers if each.job.label != "x:cpu"] == [""] * 10
    bad = Counter(each.error for each in answers if each.job.label == "x:cpu")
    assert bad == {"lost": 3, NONE_LEFT: 2}
    results = iter([LOST, LOST, DONE, LOST, LOST, LOST])
    runner = PlaceRunner([PLAIN], lambda *_: next(results), lambda: None)
    runner.submit(jobs(8))
    errors = [each.error for each in runner.results()]
    assert errors == ["lost", "lost", "", *["lost"] * 3, *[NONE_LEFT] * 2]


def test_jobs_that_are_submitted_while_results_are_read_run():
    runner = PlaceRunner([PLAIN], lambda *_: DONE, lambda: None)
    runner.submit(jobs(1))
    seen = []
    for each in runner.results():
        seen.append(each.job.id)
        if len(seen) < 3:
            runner.submit([replace(each.job, id=f"again{len(seen)}")])
    assert seen == ["j0", "again1", "again2"]


def test_a_bug_of_a_runner_loses_the_job_and_cancel_forgets_what_waits():
    def broken(job, place, device):
        raise ValueError("oops")

    stopped = []
    runner = PlaceRunner([PLAIN], broken, lambda: stopped.append(1))
    runner.submit(jobs(1))
    assert [(each.error, each.lost) for each in runner.results()] == [("ValueError: oops", True)]
    runner.submit(jobs(3))
    runner.cancel()
    assert stopped == [1] and list(runner.results()) == []


@pytest.mark.parametrize("count", [0, 2])
def test_each_gpu_of_this_machine_is_a_device(monkeypatch, count):
    monkeypatch.setattr("reprokit.host.gpu.gpus", lambda: [Gpu("V100", "", "7.0")] * count)
    seen = set()

    def run(self, job, on="", device=""):
        seen.add((on, device))
        return DONE

    monkeypatch.setattr(BenchProcesses, "run", run)
    runner = sweep_machines.this_machine()
    runner.submit(jobs(4, gpu="required"))
    answers = {(each.output, each.error) for each in runner.results()}
    assert answers == {("done", "")} if count else {("", "no machine has a GPU")}
    assert seen == ({("", "0"), ("", "1")} if count else set())


def test_an_alias_hides_the_host_and_tells_hosts_apart():
    assert alias("secret.example.org") == alias("secret.example.org") != alias("other")
    assert "secret" not in alias("secret.example.org")
    assert (str(JobPlace("here")), str(JobPlace("k", "gpu1"))) == ("this machine", "gpu1")


def test_only_nodes_of_the_users_configuration(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("nodes: {gpu1: root@10.0.0.1, gpu2: {address: 10.0.0.2}}\n")
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
    nodes = [(node.name, node.host) for node in sweep_machines.nodes_of(["gpu1", "gpu2", "gpu1"], "s")]
    assert nodes == [("gpu1", "10.0.0.1"), ("gpu2", "10.0.0.2")]
    for name in ("root@10.0.0.1", "stranger.example.org", "-oProxyCommand=touch x"):
        with pytest.raises(UsageError, match="is not a node of your configuration"):
            sweep_machines.nodes_of(["gpu1", name], "s")


@pytest.fixture
def surveyed(monkeypatch):
    """`surveyed(name=lines)`: the places of nodes whose probe printed these lines, and what was noted."""

    def places(**lines: list[str]):
        facts = {name: "".join(f"reprokit:{each}\n" for each in text) for name, text in lines.items()}
        inventory = Inventory("20", "overlay2", Form.PLAIN, None, ())
        common = "reprokit:uid 1\nreprokit:gid 1\nreprokit:cache /c\n"
        answers = [
            survey.NodeAnswer(Node(name, name), survey.parse_facts(common + text), inventory)
            for name, text in facts.items()
        ]
        monkeypatch.setattr(survey, "survey", lambda nodes, limit_s: answers)
        notes: list[str] = []
        with reporting(notes.append):
            return sweep_machines.on_nodes([]).places, notes

    return places


def test_two_names_of_one_machine_do_not_run_jobs_side_by_side(surveyed):
    """They would distort each other's results."""
    one, network = ["boot 1", "network 1"], ["network 1"]
    places, notes = surveyed(a=one, again=one, b=["boot 2", *network], unknown=network)
    assert [place.key for place in places] == ["a", "b", "unknown"]
    assert notes == ["again is left out: it is the same machine as a"]


@pytest.mark.slow
def test_a_node_names_no_more_gpus_than_a_machine_has(surveyed):
    """Each of them would have a thread and a process here."""
    ((place,), _) = surveyed(lab=["smi answers", "smi_fields index,name", *["smi_line 0, A"] * 2_000])
    assert place.gpus == tuple(map(str, range(64)))
