"""Measure a job without an engine, in the cluster's container of the image.

A task of a Slurm job array runs this module with the arguments FOLDER TASK.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reprokit.bench.hardware import Execute, probe
from reprokit.bench.run import Bench, Rounds, benchmarks, with_parameters
from reprokit.container.execute import Completed
from reprokit.errors import Absent, ReprokitError, WorkFailed
from reprokit.host.command import Flood, exchanged
from reprokit.recipe import find
from reprokit.recipe.model import Input
from reprokit.results.record import BenchOrigin
from reprokit.sweep.bench_process import ProcessResult, end, label_here
from reprokit.sweep.plan import Job
from reprokit.untrusted.limits import COMMAND_OUTPUT

_LOG = 64 << 10  # characters of the container runtime's output that are kept
_SHOWN = 400


def in_image(job: Job, prefix: Sequence[str] = ()) -> ProcessResult:
    """Measure a job; `prefix` is the command that runs other commands in the image.

    The result is `lost` if even `true` fails there.
    """
    run = partial(execute, prefix)
    started = run(["true"], workdir="/")
    if started.exit_code:
        log = f"{started.stdout}\n{started.stderr}"[-_LOG:]
        last = "; ".join([line.strip() for line in log.splitlines() if line.strip()][-3:])
        what = f"the container runtime failed with exit code {started.exit_code}"
        return ProcessResult("", f"{what}: {last[-_SHOWN:]}" if last else what, True, log)
    try:
        target = find.target(label_here(job))
        benchmark = with_parameters(
            benchmarks(target, [job.benchmark])[job.benchmark], {name: [value] for name, value in job.params.items()}
        )
        origin = BenchOrigin(input_hash="", image_digest=job.image, image_state="unverified")
        bench = Bench(target, run, probe(run), origin, partial(_present, run, target.variant.workdir))
        rounds = Rounds(None, job.warm_up, job.timeout)
        records = [
            record
            for combination in benchmark.combinations()
            for record in bench.measure(job.benchmark, benchmark, rounds=rounds, combination=combination)
        ]
    except ReprokitError as error:
        return ProcessResult("", error.message, error.exit_code > 2)
    return ProcessResult(json.dumps({"ok": True, "records": [json.loads(record.to_json()) for record in records]}))


def execute(
    prefix: Sequence[str],
    argv: Sequence[str],
    *,
    workdir: str | None = None,
    on_output: Callable[[str, str], None] | None = None,
    logged: bool = True,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
) -> Completed:
    """As `container.execute.execute`, but with `prefix`, and without a log and streamed output."""
    words = [*prefix, "sh", "-c", f'cd {shlex.quote(workdir or ".")} && exec "$@"', "sh", *argv]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env={**os.environ, **(env or {})},
    )  # fmt: skip
    try:
        out, err = exchanged(process, b"", timeout, COMMAND_OUTPUT.most)
    except subprocess.TimeoutExpired:
        return Completed(124, timed_out=True)
    except Flood:
        problem = f"the command wrote more than {COMMAND_OUTPUT.most >> 20} MiB, the limit for its output"
        raise WorkFailed(problem, hint=COMMAND_OUTPUT.hint) from None
    finally:
        end(process)
    return Completed(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def _present(run: Execute, workdir: str, file: Input) -> None:
    """Raises Absent if data is missing: only `reprokit bench` places it."""
    if run(["test", "-e", file.path], workdir=workdir).exit_code:
        raise Absent(f"the data {file.data} is not in the workspace", file.path, "copy it there")


def answer_of(result: ProcessResult) -> dict[str, Any]:
    """The answer file's content: the result and its node."""
    node = os.environ.get("SLURMD_NODENAME", "")
    return {"node": node, "output": result.output, "error": result.error, "lost": result.lost, "log": result.log}


def main(folder: str, task: str) -> None:
    """Run a job from the sweep's folder, and write its answer there atomically."""
    content = json.loads(Path(folder, "jobs.json").read_text(encoding="utf-8"))
    prefix = ["env", f"REPROKIT_IMAGE={content['image']}", "bash", f"{folder}/image.sbatch"]
    result = in_image(Job(**content["jobs"][int(task)]), prefix)
    part = Path(folder, "answers", f"{task}.part")
    part.write_text(json.dumps(answer_of(result)), encoding="utf-8")
    part.replace(part.with_suffix(".json"))


if __name__ == "__main__":
    main(*sys.argv[1:])
