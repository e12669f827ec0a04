"""What the search for fusion plans prints, and its measurements on other machines."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reprokit.bench.tuning import RECIPE, PlanSearch, SearchReader
from reprokit.results.record import Record
from reprokit.sweep.plan import Job
from reprokit.sweep.plan_search import METRIC, SearchJob, stored
from tests.support.paths import ROOT
from tests.support.records import RECORD
from tests.support.sweeps import JOB

BEST = {"plan": 41115, "time": 0.95}
PROGRESS: dict[str, Any] = {"strategy": "random", "seed": 0, "used": 8, "budget": 64, "best": BEST}
ROW: dict[str, Any] = {
    "strategy": "random", "seeds": 1, "measurements": 64, "best": 0.95, "needed": None, "reached": 0, "own_share": 0.01,
}  # fmt: skip
VERSUS: dict[str, Any] = {"strategy": "random", "plan": 1, "median": 1.01, "low": 1.0, "high": 1.02}
SUMMARY: dict[str, Any] = {
    "plan": 41115, "segments": "1 1 3 7", "time": 0.95, "against": "exact", "plotted": True, "rows": [ROW],
    "versus": [VERSUS],
}  # fmt: skip

MACHINE: dict[str, Any] = {
    "torch": "2.13.0+cpu", "processor": "EPYC, 2 cores", "instruction_sets": "avx2", "threads": 1,
}  # fmt: skip
TINY: dict[str, str | int | None] = {
    "batch": 2, "seq": 8, "mask": "none", "heads": 2, "head-size": 4, "layers": 1, "window": None, "dtype": "float32",
    "device": "cpu", "threads": 1,
}  # fmt: skip

PROBE = ("part 1 1 0",)  # what every machine measures first


def tiny_search(*strategies: str, budget: int = 12, seeds: int = 1) -> PlanSearch:
    return PlanSearch(TINY, strategies, budget, seeds, RECORD.image_digest, "cd" * 32)


def job_of(search: PlanSearch, **changes: Any) -> SearchJob:
    """What the jobs of a search have in common."""
    common = {**vars(JOB), "recipe": RECIPE, "benchmark": "tune", "command": search.command, "params": search.params}
    return SearchJob(**{**common, "lock_hash": "1f", "options": tuple(search.options), **changes})


def samples_of(name: str) -> list[float]:
    """Made-up times of a measurement, equal in every process."""
    rng = random.Random(name)
    return [rng.uniform(0.9, 1.1) for _ in range(3)]


def answer_to(job: Job, machine: Mapping[str, Any] = MACHINE, **changes: Any) -> str:
    """What `reprokit tune --measure` prints; `changes` are fields of each record."""
    assert isinstance(job, SearchJob)
    records = []
    for name in job.measurements:
        kind, _, number = name.partition(" ")
        params = {**job.params, **machine, "weights": "random", "job": kind, "id": number}
        records.append(made_record(job, params, samples_of(name), **changes))
    return json.dumps({"records": records})


def made_record(job: SearchJob, params: Mapping[str, Any], samples: Sequence[float], **changes: Any) -> dict[str, Any]:
    """A record as the worker's container would give it."""
    fields = {name: getattr(job, name) for name in ("recipe", "variant", "benchmark", "command", "lock_hash")}
    fields |= {"metric": METRIC, "unit": "1", "params": params, "samples": samples, "files": {RECIPE: "cd" * 32}}
    found: dict[str, Any] = json.loads(replace(RECORD, **{**fields, **changes}).to_json())
    return found


class Journal:
    """Replays a search with the real program on this machine. The measurements are in a file; torch is not needed."""

    def __init__(self, file: Path, search: PlanSearch) -> None:
        self.file, self.search = file, search
        self.reader = SearchReader(lambda _: None)
        self.asked: list[str] = []

    def replay(self, machine: Mapping[str, str | int]) -> Sequence[str]:
        words = shlex.split(self.search.replay(machine).partition("exec ")[2])
        words = [sys.executable, *words[1:], "--results", str(self.file), "--plot", ""]
        folder = ROOT / "workspaces" / "operator_fusion"
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        self.reader = SearchReader(lambda _: None)
        self.reader.add(done.stdout)
        self.asked += self.reader.missing
        return self.reader.missing

    def keep(self, records: Sequence[Record]) -> None:
        with self.file.open("a") as file:
            file.writelines(f"{stored(record)}\n" for record in records)

    @property
    def names(self) -> list[str]:
        """What has been measured."""
        found = [json.loads(line)["params"] for line in self.file.read_text().splitlines()]
        return [f"{params['job']} {params['id']}" for params in found]
