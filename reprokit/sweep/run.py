"""Run a plan: check and record each answer as it arrives, and retry failed jobs elsewhere.

A worker may return hostile, foreign, duplicate or too many records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from reprokit.display import notify
from reprokit.errors import ReprokitError
from reprokit.results import lines
from reprokit.results.likeness import has_params
from reprokit.results.record import Record
from reprokit.sweep.bench_process import MOST_OUTPUT
from reprokit.sweep.plan import Job
from reprokit.untrusted.documents import parsed

ATTEMPTS = 3
_MOST_RECORDS = 10_000
# Fields of records that must equal the job's, so that no answer of another job, or of another recipe of the same name,
# is accepted.
_EQUAL = ("recipe", "variant", "benchmark", "command", "lock_hash")


@dataclass(frozen=True)
class JobPlace:
    """A machine that runs jobs. `name` is its alias in records, "" for this machine; `key` is unique.

    `gpus` are its GPUs as `--gpus device=` names them.
    """

    key: str
    name: str = ""
    gpus: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name or "this machine"


@dataclass(frozen=True)
class JobAnswer:
    """`output` is what `reprokit bench --json` printed, not yet checked; `error` says why there is none.

    `lost` means that the place failed, not the benchmark; `final` that no other place can run the job. `log` is the end
    of the container runtime's output, if it failed.
    """

    job: Job
    place: JobPlace
    output: str = ""
    error: str = ""
    lost: bool = False
    final: bool = False
    log: str = ""


class Runner(Protocol):
    """Runs jobs. Failed jobs may be submitted again while results are read, with places to avoid."""

    def submit(self, jobs: Sequence[Job]) -> None: ...

    def results(self) -> Iterator[JobAnswer]:
        """Yield answers as they arrive, until no job is left."""
        ...

    def cancel(self) -> None:
        """End all running jobs; no more answers arrive."""
        ...


@dataclass(frozen=True)
class FailedJob:
    """A job without a record, the reason of each failed attempt, and the log of the last one."""

    job: Job
    reasons: Sequence[str]
    log: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"job": self.job.title, "id": self.job.id, "reasons": list(self.reasons)}


@dataclass
class SweepResult:
    """The results of a plan so far."""

    recorded: int = 0
    failed: list[FailedJob] = field(default_factory=list)


def records_of(answer: JobAnswer) -> list[Record]:
    """The records, with the job and the alias of the place. Raises ValueError for wrong records."""
    if len(answer.output) > MOST_OUTPUT:
        raise ValueError(f"its answer is longer than {MOST_OUTPUT >> 20} MiB")
    try:
        data = parsed(answer.output)
    except ReprokitError as error:
        raise ValueError(error.message) from None
    except ValueError:
        raise ValueError("its answer is not JSON") from None
    entries = data.get("records") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        raise ValueError("its answer has no records")
    if not entries:
        raise ValueError(_reason(data) or "it measured nothing")
    if len(entries) > _MOST_RECORDS:
        raise ValueError(f"its answer has {len(entries)} records, more than {_MOST_RECORDS}")
    records = [_record(entry, number) for number, entry in enumerate(entries, 1)]
    seen = set()
    for record in records:
        for name in _EQUAL:
            if (theirs := getattr(record, name)) != (ours := getattr(answer.job, name)):
                raise ValueError(f"it returned a record of another {name}: {_short(theirs)}, not {_short(ours)}")
        for name, value in answer.job.params.items():
            printed = record.params.get(name)
            # The program may print a variable differently: 'true' for True. Records of `tune` and of older workers
            # have no variables.
            given = record.variables.get(name, printed)
            if not _same(given, value) or not has_params(record.params, {name: value}):
                theirs = printed if _same(given, value) else given
                raise ValueError(f"it returned a record of other parameters: {name}={_short(theirs)}")
        key = json.dumps([record.metric, record.unit, record.params], sort_keys=True)
        if key in seen:
            raise ValueError(f"it returned two records of {_short(record.metric)} with the same parameters")
        seen.add(key)
    return [replace(record, job=answer.job.id, node=answer.place.name) for record in records]


def _record(data: Any, number: int) -> Record:
    try:
        ((_, record),) = lines.numbered([json.dumps(data).encode() + b"\n"], "record", number)
    except ReprokitError as error:
        raise ValueError(f"{error.where}: {error.message}") from None
    return record


def _reason(data: Mapping[str, Any]) -> str:
    """The reason of `reprokit bench --json` why nothing was measured."""
    for part in (data.get("failed"), data.get("left_out")):
        if isinstance(part, list) and part and isinstance(part[0], dict):
            return str(part[0].get("reason", ""))[:500]
    return ""


def _same(theirs: Any, ours: Any) -> bool:
    """Whether two values are equal, also in type: True == 1 in Python."""
    return type(theirs) is type(ours) and theirs == ours


def _short(value: Any) -> str:
    return repr(value)[:80]


def run(
    jobs: Sequence[Job],
    runner: Runner,
    record: Callable[[str, Sequence[Record]], None],
    progress: Callable[[SweepResult], None],
    check: Callable[[JobAnswer], list[Record]] = records_of,
) -> SweepResult:
    """Run all jobs; `record(recipe, records)` stores those of one job, all or nothing, once `check` returned them.

    An interrupt ends the running jobs and is raised again; records stay.
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
                failures = reasons.setdefault(job.id, [])
                failures.append(f"{answer.place}: {error}" if answer.place.key else error)
                if answer.final or len(failures) >= ATTEMPTS:
                    notify(f"{job.title} failed: {failures[-1]}")
                    result.failed.append(FailedJob(job, failures, answer.log))
                    open_jobs.discard(job.id)
                else:
                    notify(f"{job.title} is tried again: {failures[-1]}")
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
