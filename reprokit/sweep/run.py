"""Run a plan: record each answer as it comes, and try what failed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reprokit.display import notify
from reprokit.results.record import Record
from reprokit.sweep.answer import records_of
from reprokit.sweep.plan import Job
from reprokit.sweep.runner import JobAnswer, Runner

ATTEMPTS = 3


@dataclass(frozen=True)
class FailedJob:
    """A job without a record, what each attempt said, and the log of the last one."""

    job: Job
    reasons: Sequence[str]
    log: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"job": self.job.title, "id": self.job.id, "reasons": list(self.reasons)}


@dataclass
class SweepResult:
    """What has come of a plan so far."""

    recorded: int = 0
    failed: list[FailedJob] = field(default_factory=list)


def run(
    jobs: Sequence[Job],
    runner: Runner,
    record: Callable[[str, Sequence[Record]], None],
    progress: Callable[[SweepResult], None],
    check: Callable[[JobAnswer], list[Record]] = records_of,
) -> SweepResult:
    """Run all jobs; `record(recipe, records)` stores those of one job, all or nothing, once `check` returned them.

    An interrupt ends what runs, and is raised again; what was recorded stays.
    """
    result = SweepResult()
    open_jobs = {job.id for job in jobs}
    reasons: dict[str, list[str]] = {}
    try:
        runner.submit(jobs)
        for answer in runner.results():
            job = answer.job
            if job.id not in open_jobs:  # answered before
                continue
            error, records = _checked(answer, check)
            if not error:
                record(job.recipe, records)
                result.recorded += 1
                open_jobs.discard(job.id)
            else:
                said = reasons.setdefault(job.id, [])
                said.append(f"{answer.place}: {error}" if answer.place.key else error)
                if answer.final or len(said) >= ATTEMPTS:
                    notify(f"{job.title} failed: {said[-1]}")
                    result.failed.append(FailedJob(job, said, answer.log))
                    open_jobs.discard(job.id)
                else:
                    notify(f"{job.title} is tried again: {said[-1]}")
                    avoid = [answer.place.key] if answer.place.key else []
                    runner.submit([replace(job, avoid=(*job.avoid, *avoid))])
            progress(result)
    except BaseException:
        runner.cancel()
        raise
    return result


def _checked(answer: JobAnswer, check: Callable[[JobAnswer], list[Record]]) -> tuple[str, list[Record]]:
    if answer.error:
        return answer.error, []
    try:
        return "", check(answer)
    except ValueError as error:
        return str(error), []
