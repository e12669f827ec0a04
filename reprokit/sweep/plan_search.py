"""Search for the fastest fusion plan with measurements made by a cluster.

The search itself runs in a container of this machine, which measures nothing: it is replayed with the measurements so
far, and names those that are missing. Answers are untrusted.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from reprokit.bench.tuning import RECIPE, PlanSearch
from reprokit.display import notify
from reprokit.errors import WorkFailed
from reprokit.formatting import counted
from reprokit.host.command import own_module
from reprokit.recipe.find import Target
from reprokit.results.record import Record
from reprokit.sweep.answer import records_of
from reprokit.sweep.bench_process import BenchProcesses, ProcessResult, label_here
from reprokit.sweep.places import PlaceRunner
from reprokit.sweep.plan import Job
from reprokit.sweep.run import SweepResult, run
from reprokit.sweep.runner import JobAnswer, JobPlace

METRIC = "operator_fusion.relative_time"
# Parameters that name the machine, as the program reports it.
_MACHINE = ("torch", "processor", "instruction_sets", "threads")
_OWN = ("weights", "job", "id")
# A process that measures several compiles the whole layer, with which it compares all, only once.
_TOGETHER = 8
# The cheapest measurement: every machine makes it first, and so shows what it is.
_PROBE = "part 1 1 0"
_MOST_SAMPLES, _LARGEST, _LONGEST = 1000, 1e6, 300

MachineFields = Mapping[str, str | int]


@dataclass(frozen=True)
class SearchJob(Job):
    """One call of `reprokit tune --measure`. `options` are its words for the shape, `measurements` those to make."""

    options: tuple[str, ...] = ()
    measurements: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        more = f" and {len(self.measurements) - 1} more" if len(self.measurements) > 1 else ""
        return f"{self.label} {self.measurements[0]}{more}"


def search_job(target: Target, search: PlanSearch, lock_hash: str, stale: bool) -> SearchJob:
    """What all jobs of a search have in common."""
    gpu = "required" if str(search.shape["device"]).startswith("cuda") else "none"
    return SearchJob(
        id="", recipe=target.recipe.name, variant=target.variant_name, path=str(target.path), benchmark="tune",
        command=search.command, params=search.params, lock_hash=lock_hash, gpu=gpu, runs=1, warm_up=0, timeout=None,
        options=(*search.options, *(["--stale"] if stale else [])),
    )  # fmt: skip


def by_tune(job: Job, device: str) -> ProcessResult:
    """What a worker does: it runs `reprokit tune`, and interrupts it when the task is cancelled."""
    assert isinstance(job, SearchJob)
    words = [*own_module("reprokit"), "tune", label_here(job), "--json", *job.options]
    words += [f"--measure={name}" for name in job.measurements]
    return BenchProcesses().run_command([*words, f"--gpus=device={device}"] if device else words)


@dataclass
class ClusterSearch:
    """`replay(machine)` returns the missing measurements, none when the search has ended; `keep` stores new records.

    `progress(done, count)` reports how many jobs of a round have finished.
    """

    search: PlanSearch
    job: SearchJob
    runner: PlaceRunner
    replay: Callable[[MachineFields], Sequence[str]]
    keep: Callable[[Sequence[Record]], None]
    progress: Callable[[int, int], None]

    def run(self) -> MachineFields:
        """Search to the end; returns what all machines of the search are.

        Raises WorkFailed if a measurement fails on several machines; all others of its round are kept, too.
        """
        machine, unlike = self._chosen()
        asked: set[str] = set()
        while missing := self.replay(machine):
            if again := asked.intersection(missing):
                raise WorkFailed("the search asks for a measurement that it was given", min(again))
            asked.update(missing)
            jobs = [self._job(names, unlike) for names in grouped(missing, self._slots(unlike))]
            self._measured(jobs, machine)
        return machine

    def _measured(self, jobs: Sequence[SearchJob], machine: MachineFields) -> None:
        def show(result: SweepResult) -> None:
            self.progress(result.recorded + len(result.failed), len(jobs))

        def check(answer: JobAnswer) -> list[Record]:
            return checked(answer, self.search, machine)

        result = run(jobs, self.runner, lambda _, records: self.keep(records), show, check)
        if result.failed:
            first = result.failed[0]
            message = f"{len(result.failed)} of {counted(len(jobs), 'job')} failed, the first: {first.job.title}"
            raise WorkFailed(f"{message}: {first.reasons[-1]}", hint="the same command tries only these again")

    def _chosen(self) -> tuple[MachineFields, tuple[str, ...]]:
        """What most machines are, and the keys of the places that are something else. Raises WorkFailed."""
        found: dict[str, tuple[JobPlace, MachineFields]] = {}

        def check(answer: JobAnswer) -> list[Record]:
            records = checked(answer, self.search)
            found[answer.place.key] = (answer.place, machine_of(records[0]))
            return records

        keys = [place.key for place in self._able()]
        # One probe for each machine: it avoids all others.
        jobs = [self._job((_PROBE,), tuple(key for key in keys if key != own), own) for own in keys]
        jobs = jobs or [self._job((_PROBE,), ())]
        result = run(jobs, self.runner, lambda *_: None, lambda _: None, check)
        if not found:
            raise WorkFailed(f"no machine of the cluster can measure: {result.failed[0].reasons[-1]}")
        counts = Counter(_text(machine) for _, machine in found.values())
        most = max(counts, key=lambda text: (counts[text], text))
        machine: MachineFields = json.loads(most)
        for place, other in found.values():
            if _text(other) != most:
                notify(f"{place} is left out: {_difference(other, machine)}")
        alike = [key for key, (_, other) in found.items() if _text(other) == most]
        notify(f"searching on {len(alike)} of {max(len(keys), 1)} machines: {machine['processor']}")
        return machine, tuple(key for key in keys if key not in alike)

    def _able(self) -> list[JobPlace]:
        return [place for place in self.runner.places() if place.gpus or self.job.gpu != "required"]

    def _slots(self, unlike: Sequence[str]) -> int:
        """How many jobs run side by side."""
        places = [place for place in self._able() if place.key not in unlike]
        return sum(len(place.gpus) if self.job.gpu == "required" else 1 for place in places)

    def _job(self, names: tuple[str, ...], avoid: tuple[str, ...], own: str = "") -> SearchJob:
        key = json.dumps([self.job.label, self.job.command, self.job.lock_hash, names, own])
        identity = hashlib.sha256(key.encode()).hexdigest()[:24]
        return replace(self.job, id=identity, measurements=names, avoid=avoid)


def grouped(missing: Sequence[str], slots: int) -> list[tuple[str, ...]]:
    """What one job each measures: of one kind, and little enough that all `slots` have work.

    Comparisons with the same plan stay together, because plans are compared in turns.
    """
    kinds: dict[str, list[str]] = {}
    for name in missing:
        words = name.split()
        kinds.setdefault(f"versus {words[-1]}" if words[0] == "versus" else words[0], []).append(name)
    size = min(_TOGETHER, max(1, math.ceil(len(missing) / max(1, slots))))
    found = []
    for kind, names in kinds.items():
        step = len(names) if kind.startswith("versus") else size
        found += [tuple(names[start : start + step]) for start in range(0, len(names), step)]
    return found


def checked(answer: JobAnswer, search: PlanSearch, machine: MachineFields | None = None) -> list[Record]:
    """The records of an answer: each requested measurement once, all of this machine. Raises ValueError."""
    job = answer.job
    assert isinstance(job, SearchJob)
    records = records_of(answer)
    for record in records:
        if (record.metric, record.unit) != (METRIC, "1"):
            raise ValueError("it returned a record that is not a measurement of the search")
        if set(record.params) != {*job.params, *_MACHINE, *_OWN} or record.params["weights"] != "random":
            raise ValueError("it returned a record of other parameters")
        if record.files != {RECIPE: search.sources}:
            raise ValueError("it has another version of the search program")
        if not job.lock_hash and record.image_digest != search.image:
            raise ValueError("it has another image, and the recipe has no lock; `reprokit lock` makes one")
        if len(record.samples) > _MOST_SAMPLES or not all(0 < sample <= _LARGEST for sample in record.samples):
            raise ValueError("it returned times that are none")
        if difference := _difference(machine_of(record), machine or machine_of(records[0])):
            raise ValueError(f"it is unlike the machines of this search: {difference}")
    if sorted(map(_name, records)) != sorted(job.measurements):
        raise ValueError("it returned other measurements than the requested ones")
    return records


def of_search(record: Record, search: PlanSearch, job: SearchJob, machine: MachineFields) -> bool:
    """Whether a record of any search is of this one: of the same program, image or lock, shape and machine."""
    of_image = record.lock_hash == job.lock_hash and (job.lock_hash or record.image_digest == search.image)
    of_program = record.command == search.command and record.files == {RECIPE: search.sources}
    return bool(of_image) and of_program and machine.items() <= record.params.items()


def machine_of(record: Record) -> MachineFields:
    """The machine that a record of the search names. Raises ValueError."""
    found = {name: record.params[name] for name in _MACHINE}
    texts = [found[name] for name in _MACHINE[:-1]]
    if not all(isinstance(each, str) and len(each) <= _LONGEST for each in texts) or type(found["threads"]) is not int:
        raise ValueError("it returned a record that names no machine")
    return found


def stored(record: Record) -> str:
    """A record as the program stores it: one line."""
    line = {"metric": record.metric, "unit": record.unit, "samples": record.samples, "params": record.params}
    return json.dumps(line)


def _name(record: Record) -> str:
    """As the search names it; "" if job or number is no text, as no stored record has them."""
    words = [record.params["job"], record.params["id"]]
    return " ".join(words) if all(isinstance(word, str) for word in words) else ""


def _text(machine: MachineFields) -> str:
    return json.dumps(machine, sort_keys=True)


def _difference(machine: MachineFields, other: MachineFields) -> str:
    return ", ".join(
        f"{name} {machine[name]!r} instead of {other[name]!r}" for name in _MACHINE if machine[name] != other[name]
    )
