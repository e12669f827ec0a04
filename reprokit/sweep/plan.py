"""The jobs of a sweep: one for each combination, shuffled, without those that have a record."""

from __future__ import annotations

import hashlib
import json
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reprokit.bench.parameters import check_names
from reprokit.bench.run import assignments, benchmarks, with_parameters
from reprokit.errors import UsageError
from reprokit.image.lock.read import recipe_lock, variant_lock
from reprokit.image.render import render
from reprokit.recipe import find
from reprokit.recipe.find import Target
from reprokit.recipe.model import MOST_COMBINATIONS
from reprokit.results.record import Record
from reprokit.supply.store import key_of
from reprokit.sweep.file import MOST_JOBS, SweepFile, SweepRun, too_many


@dataclass(frozen=True)
class Job:
    """One call of `reprokit bench`; `id` is a hash of everything that it measures.

    `gpu` is "required", "optional" or "none". `avoid` are places where it failed. `image` is the digest of the image in
    which a cluster runs it without an engine; its lock is then unknown, and `lock_hash` is empty.
    """

    id: str
    recipe: str
    variant: str
    path: str
    benchmark: str
    command: str
    params: Mapping[str, Any]
    lock_hash: str
    gpu: str
    runs: int
    warm_up: int
    timeout: int | None
    avoid: tuple[str, ...] = ()
    image: str = ""

    @property
    def label(self) -> str:
        return f"{self.recipe}:{self.variant}"

    @property
    def title(self) -> str:
        return " ".join([self.label, self.benchmark, *assignments(self.params)])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class SweepPlan:
    """`jobs` are to run, in this order; `expected_s` are the seconds by `Job.title`, from earlier runs."""

    jobs: Sequence[Job]
    done: int
    expected_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """The machine time of all jobs, None if unknown. Jobs that never ran count as the average of the others."""
        times = [self.expected_s[job.title] for job in self.jobs if job.title in self.expected_s]
        return statistics.fmean(times) * len(self.jobs) if times else None

    @property
    def unknown(self) -> int:
        """Jobs that never ran."""
        return sum(job.title not in self.expected_s for job in self.jobs)


def jobs_of(
    sweep: SweepFile,
    where: str,
    image_of: Callable[[Target], str] = lambda target: "",
) -> list[Job]:
    """All jobs of a sweep, shuffled by its seed. Raises UsageError, also for too many jobs, or a job named twice.

    `image_of` is as `Job.image`.
    """
    by_id: dict[str, Job] = {}
    images: dict[tuple[Path, str], str] = {}  # a digest may require reading gigabytes
    for run in sweep.runs:
        for target in _targets(run):
            variant = (target.path, target.variant_name)
            if variant not in images:
                images[variant] = image_of(target)
            check_names(target.label, benchmarks(target, run.benchmarks).values(), run.parameters, where)
            for job in _jobs(sweep, run, target, where, images[variant]):
                if job.id in by_id:
                    raise UsageError(f"{job.title} is named twice", where, "use `repeats` to measure more often")
                by_id[job.id] = job
                if len(by_id) > MOST_JOBS:
                    raise too_many(len(by_id), where)
    ordered = list(by_id.values())
    # Shuffle, because successive jobs share the machine's temperature and load.
    random.Random(sweep.seed).shuffle(ordered)
    return ordered


def plan(jobs: Sequence[Job], records: Iterable[Record]) -> SweepPlan:
    """The jobs without a record, and how long they take according to the records."""
    done: set[str] = set()
    seconds: dict[tuple[str, str, str], list[float]] = {}
    for record in records:
        done.add(record.job)
        rounds = len(record.repeats) + record.warm_up
        if record.seconds is not None and rounds:
            key = (record.recipe, record.variant, record.benchmark)
            seconds.setdefault(key, []).append(record.seconds / rounds)
    due = [job for job in jobs if job.id not in done]
    expected_s = {
        job.title: statistics.median(times) * (job.runs + job.warm_up)
        for job in due
        if (times := seconds.get((job.recipe, job.variant, job.benchmark)))
    }
    return SweepPlan(due, len(jobs) - len(due), expected_s)


def _targets(run: SweepRun) -> list[Target]:
    if not run.variants:
        return [find.target(run.recipe)]
    return [find.target(f"{run.recipe}:{variant}") for variant in run.variants]


def _jobs(sweep: SweepFile, run: SweepRun, target: Target, where: str, image: str) -> Iterable[Job]:
    lock_hash, inputs = ("", image) if image else _inputs(target)
    settings = _settings(target)
    # The first fetch adds the SHA-256 of a public record's file.
    sums = {file.name: getattr(file, "md5", file.sha256) for file in recipe_lock(target).data}
    for name, benchmark in benchmarks(target, run.benchmarks).items():
        chosen = with_parameters(benchmark, run.parameters)
        count = chosen.combination_count
        if count > MOST_COMBINATIONS:
            raise too_many(count * sweep.repeats, where)
        measured = benchmark.model_dump(mode="json", exclude={"matrix", "variants", "timeout"})
        data = {file.data: sums.get(file.data, "") for file in benchmark.inputs if file.data}
        beside = [part for part in (settings, data) if part]
        gpu = "required" if benchmark.gpu else target.variant.requires.gpu
        for params in chosen.combinations():
            for number in range(sweep.repeats):
                key = [target.label, name, measured, params, inputs, sweep.warm_up, sweep.seed, number, *beside]
                yield Job(
                    id=hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24],
                    recipe=target.recipe.name,
                    variant=target.variant_name,
                    path=str(target.path),
                    benchmark=name,
                    command=benchmark.command,
                    params=params,
                    lock_hash=lock_hash,
                    gpu=gpu,
                    runs=benchmark.repeat,
                    warm_up=sweep.warm_up,
                    timeout=sweep.timeout,
                    image=image,
                )


def _inputs(target: Target) -> tuple[str, str]:
    """The hash of the lock ("" without a lock) and of all inputs of the image."""
    lock = variant_lock(target)
    lock_hash = lock.hash if lock else ""
    return lock_hash, key_of({"dockerfile": render(target).digest, "lock": lock_hash})


def _settings(target: Target) -> dict[str, Any]:
    """The container settings that come from the recipe instead of the image; without defaults."""
    return target.variant.model_dump(mode="json", include={"shm", "mounts"}, exclude_defaults=True)
