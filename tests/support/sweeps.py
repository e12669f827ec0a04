"""Jobs of sweeps, and what a worker answers."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import Any

from reprokit.sweep.bench_process import BenchProcesses, ProcessResult
from reprokit.sweep.plan import Job
from reprokit.sweep.run import JobAnswer, JobPlace
from tests.support.records import RECORD

RECIPE = """\
name: x
paper: {title: T, venue: V, year: 2024, licence: none}
variants:
  cpu: {base: "debian:12"}
  cuda: {base: "debian:12", requires: {gpu: required}}
benchmarks:
  spmm:
    command: 'echo "took ${THREADS:-1} ms"'
    matrix: {LAYOUT: [row, column]}
    parse: {values: [{pattern: 'took (?P<value>\\S+) ms', metric: spmm, unit: ms}]}
  kernel:
    command: kernel
    gpu: true
    repeat: 5
    variants: [cuda]
    parse: {format: records}
"""
JOB = Job(
    id="j", recipe="x", variant="cpu", path="/none/x.yaml", benchmark="forward", command="measure", params={},
    lock_hash="", gpu="none", runs=1, warm_up=0, timeout=None,
)  # fmt: skip


def jobs(count: int, **changes: Any) -> list[Job]:
    return [replace(JOB, id=f"j{number}", params={"N": number}, **changes) for number in range(count)]


def output(job: Job, /, **changes: Any) -> str:
    """What `reprokit bench --json` prints for a job; `changes` are fields of its record."""
    fields = {name: getattr(job, name) for name in ("recipe", "variant", "benchmark", "command", "lock_hash", "params")}
    record = replace(RECORD, **{**fields, **changes})
    return json.dumps({"ok": True, "records": [json.loads(record.to_json())]})


def answer(job: Job, text: str) -> JobAnswer:
    return JobAnswer(job, JobPlace("p", "node1"), text)


def by_process(job: Job, device: str) -> ProcessResult:
    """In place of a container: a process that prints the answer."""
    time.sleep(0.02)
    return BenchProcesses().run_command([sys.executable, "-S", "-c", f"print({output(job)!r})"])
