"""Jobs as Slurm job arrays: each task measures one job in the recipe's image, by enroot and Pyxis or by Apptainer.

The scripts and answers are below reprokit's own folder, which the nodes share with this machine, like reprokit itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reprokit import paths
from reprokit.bundle.tools import slurm
from reprokit.bundle.tools.tool import ToolJob
from reprokit.display import notify
from reprokit.errors import EngineError, UsageError
from reprokit.host import workspace
from reprokit.host.command import Flood, own_module, run
from reprokit.recipe import find
from reprokit.recipe.find import Target
from reprokit.supply.store import sha256_of
from reprokit.sweep.bench_process import MOST_OUTPUT
from reprokit.sweep.plan import Job
from reprokit.sweep.run import JobAnswer, JobPlace
from reprokit.untrusted import files
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import COMMAND_ANSWER

# Slurm's default MaxArraySize is 1001.
_MOST_TASKS = 1000
_COMMAND_S = 60.0
# If this many jobs of a variant, or all, were lost and none succeeded, its other jobs are given up.
_MOST_LOST = 3
# How long a network file system may take to show the file of an ended task.
_SEEN_S = 15.0
_MOST_ERROR = 500
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
Command = Callable[[Sequence[str]], str]


def command(words: Sequence[str]) -> str:
    """The output of a command of Slurm. Raises EngineError if it fails."""
    try:
        done = run(words, _COMMAND_S, COMMAND_ANSWER)
    except (OSError, subprocess.SubprocessError, Flood) as error:
        raise EngineError(
            f"{words[0]} did not run: {type(error).__name__}", hint="run the sweep on a login node"
        ) from None
    if done.code:
        raise EngineError(f"{words[0]} failed: {done.err.strip()[:500]}", hint="SBATCH_PARTITION and such set options")
    return done.out


@dataclass
class _Array:
    """A job array: its number and folder, its unanswered jobs by task, and when each of them ended.

    `clean` is False once a job has failed.
    """

    number: str
    folder: Path
    jobs: dict[int, Job]
    ended: dict[int, float] = field(default_factory=dict)
    clean: bool = True


class SlurmRunner:
    """Run jobs as Slurm job arrays. `command` runs a command of Slurm; it is polled every `poll_s` seconds."""

    def __init__(self, poll_s: float = 5.0, command: Command = command) -> None:
        self._poll_s, self._command = poll_s, command
        self._arrays: list[_Array] = []
        # By variant: all jobs, and the lost jobs; then the variants with a job that was not lost.
        self._all: dict[str, set[str]] = {}
        self._lost: dict[str, set[str]] = {}
        self._begun: set[str] = set()

    def submit(self, jobs: Sequence[Job]) -> None:
        groups: dict[tuple[Any, ...], list[Job]] = {}
        for job in jobs:
            self._all.setdefault(job.label, set()).add(job.id)
            groups.setdefault((job.label, job.gpu, job.avoid), []).append(job)
        for group in groups.values():
            for start in range(0, len(group), _MOST_TASKS):
                self._arrays.append(self._submitted(group[start : start + _MOST_TASKS]))

    def results(self) -> Iterator[JobAnswer]:
        while any(array.jobs for array in self._arrays):
            for array in list(self._arrays):
                for answer in self._answers(array):
                    yield self._judged(answer)
            yield from self._refused()
            for array in self._arrays:
                if not array.jobs and array.clean:  # else keep the tasks' output, which may explain the failure
                    shutil.rmtree(array.folder, ignore_errors=True)
            self._arrays = [array for array in self._arrays if array.jobs]
            if self._arrays:
                time.sleep(self._poll_s)

    def cancel(self) -> None:
        for array in self._arrays:
            self._cancel(array)

    def _cancel(self, array: _Array) -> None:
        try:
            self._command(["scancel", array.number])
        except EngineError as error:  # still cancel the others
            notify(f"the job array {array.number} still runs: {error.message}")

    def _judged(self, answer: JobAnswer) -> JobAnswer:
        """The answer, final if all jobs of its variant were lost so far."""
        label = answer.job.label
        if not answer.lost:
            self._begun.add(label)
            return answer
        self._lost.setdefault(label, set()).add(answer.job.id)
        return replace(answer, final=True) if self._all_lost(label) else answer

    def _all_lost(self, label: str) -> bool:
        lost = len(self._lost.get(label, ()))
        return label not in self._begun and lost >= min(_MOST_LOST, len(self._all[label]))

    def _refused(self) -> Iterator[JobAnswer]:
        """Give up the other jobs of variants whose jobs were all lost: the cause is not in the benchmark."""
        for array in self._arrays:
            jobs = list(array.jobs.values())
            if jobs and self._all_lost(jobs[0].label):
                self._cancel(array)
                array.jobs.clear()
                for job in jobs:
                    why = f"not tried, as all jobs of {job.label} were lost so far"
                    yield JobAnswer(job, JobPlace(""), error=why, final=True)

    def _submitted(self, jobs: Sequence[Job]) -> _Array:
        first = jobs[0]
        target = find.target(f"{first.path}:{first.variant}")
        tool = ToolJob(target, workspace.prepare(target), f"{os.getuid()}:{os.getgid()}")
        parent = paths.private(paths.private(paths.home()) / "sweeps")
        folder = Path(tempfile.mkdtemp(dir=parent))
        (folder / "answers").mkdir()
        (folder / "image.sbatch").write_text(slurm.text(tool), encoding="utf-8")
        content = {"jobs": [job.to_json() for job in jobs], "image": str(image_file(target))}
        (folder / "jobs.json").write_text(json.dumps(content), encoding="utf-8")
        script = folder / "array.sbatch"
        script.write_text(array_script(folder), encoding="utf-8")
        options = [*array_options(tool, jobs, folder), *self._excluded(first)]
        number = self._command(["sbatch", "--parsable", *options, str(script)]).strip().partition(";")[0]
        if not re.fullmatch(r"[0-9]{1,18}", number):
            raise EngineError(f"sbatch returned no job number: {number[:100]!r}")
        return _Array(number, folder, dict(enumerate(jobs)))

    def _excluded(self, job: Job) -> list[str]:
        """The nodes on which a job failed, unless there are no others."""
        if not job.avoid:
            return []
        nodes = self._command(["sinfo", "--noheader", "--Node", "--format=%N"]).split()
        return [] if {*nodes} <= {*job.avoid} else [f"--exclude={','.join(sorted({*job.avoid}))}"]

    def _answers(self, array: _Array) -> Iterator[JobAnswer]:
        listed = self._tasks(array)
        for task, job in list(array.jobs.items()):
            answer = _answer(array.folder / "answers", f"{task}.json", job)
            if answer is None and task not in listed:
                since = array.ended.setdefault(task, time.monotonic())
                if time.monotonic() - since >= min(_SEEN_S, 3 * self._poll_s):
                    error = f"the task {array.number}_{task} left no answer"
                    answer = JobAnswer(job, JobPlace(""), "", error, lost=True, log=_printed(array.folder, task))
            if answer:
                del array.jobs[task]
                array.clean = array.clean and not answer.error
                yield answer

    def _tasks(self, array: _Array) -> set[int]:
        """The waiting and running tasks of an array; all unanswered tasks if Slurm fails."""
        try:
            tasks = self._command(["squeue", "--noheader", "--array", f"--jobs={array.number}", "--format=%K"])
        except EngineError as error:
            if "Invalid job id" in error.message:  # Slurm forgets ended jobs after some minutes
                return set()
            notify(error.message)
            return set(array.jobs)
        return {int(word) for word in tasks.split() if re.fullmatch("[0-9]{1,9}", word)}


def image_digest(target: Target) -> str:
    """The SHA-256 of the file of a variant's image. Raises UsageError."""
    return f"sha256:{sha256_of(image_file(target))}"


def image_file(target: Target) -> Path:
    """The file of a variant's image in the current folder. Raises UsageError."""
    label, name = target.label, target.label.replace(":", "-")
    for suffix in ("sqsh", "sif"):
        if (file := Path.cwd() / f"{name}.{suffix}").is_file():
            return file
    hint = f"`reprokit export {label} --format squashfs -o {name}.sqsh`, or `reprokit render {label} --as apptainer`"
    raise UsageError(f"there is no {name}.sqsh and no {name}.sif here", str(Path.cwd()), hint)


def array_options(tool: ToolJob, jobs: Sequence[Job], folder: Path) -> list[str]:
    """The options of sbatch. A job without a GPU gets its node exclusively."""
    options = [*slurm.options(tool), f"--array=0-{len(jobs) - 1}", f"--output={folder}/%a.out"]
    share = "--gpus=1" if jobs[0].gpu == "required" else "--exclusive"
    return [*(option for option in options if option != share), share]


def array_script(folder: Path) -> str:
    words = [*own_module("reprokit.sweep.inside"), str(folder)]
    return f'#!/bin/bash\nexec {shlex.join(words)} "$SLURM_ARRAY_TASK_ID"\n'


def _answer(folder: Path, name: str, job: Job) -> JobAnswer | None:
    """The answer in a task's file, None if there is no file yet."""
    try:
        with files.Folder(folder) as opened:
            data = parsed(opened.read(name, 2 * MOST_OUTPUT))
        node, output, error, log = (data[name] for name in ("node", "output", "error", "log"))
    except FileNotFoundError:
        return None
    except (OSError, UsageError, ValueError, LookupError, TypeError):
        return JobAnswer(job, JobPlace(""), error="the task's answer is not valid")
    if not all(isinstance(value, str) for value in (node, output, error, log)):
        return JobAnswer(job, JobPlace(""), error="the task's answer is not valid")
    place = JobPlace(node if _NODE.fullmatch(node) else "", alias(node))
    return JobAnswer(job, place, output, error[:_MOST_ERROR], data.get("lost") is True, log=log)


def alias(node: str) -> str:
    """An alias of a node for records, which contain no host names."""
    return f"slurm-{hashlib.sha256(node.encode()).hexdigest()[:6]}"


def _printed(folder: Path, task: int) -> str:
    """The output of a task; "" if it is empty or too large."""
    try:
        with files.Folder(folder) as opened:
            return opened.read(f"{task}.out", MOST_OUTPUT).decode(errors="replace")
    except (OSError, UsageError):
        return ""
