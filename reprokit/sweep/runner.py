"""What runs the jobs of a sweep: a small interface, and what each job answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from reprokit.sweep.plan import Job


@dataclass(frozen=True)
class JobPlace:
    """A machine that runs jobs. `name` is its alias in records, "" for this machine; `key` tells it from others.

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

    `lost` means that the place failed and not the benchmark; `final` that no other place can run the job. `log` is the
    end of what the container runtime printed, if it failed.
    """

    job: Job
    place: JobPlace
    output: str = ""
    error: str = ""
    lost: bool = False
    final: bool = False
    log: str = ""


class Runner(Protocol):
    """Jobs may be submitted while results are read: a failed one again, with places to avoid."""

    def submit(self, jobs: Sequence[Job]) -> None: ...

    def results(self) -> Iterator[JobAnswer]:
        """The answers as they come, until no job is left."""
        ...

    def cancel(self) -> None:
        """End what runs; no answer comes any more."""
        ...
