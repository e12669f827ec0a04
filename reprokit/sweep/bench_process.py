"""Run `reprokit bench` for a job, as a process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reprokit.host.command import Flood, exchange, own_module
from reprokit.recipe import yaml
from reprokit.sweep.plan import Job

MOST_OUTPUT = 16 << 20  # bytes of each stream
AT_ONCE = 256  # processes of about 60 MB
_END_S = 60.0  # limit for stopping the container after an interrupt
# Exit codes of a place that cannot run the job: 3 no engine, 4 no network; 126 and 127 no reprokit.
_LOST = (3, 4, 126, 127)


def label_here(job: Job) -> str:
    """The target's name on this machine: the recipe's file, or its name on a worker without the file."""
    return f"{job.path if Path(job.path).is_file() else job.recipe}:{job.variant}"


def bench_command(job: Job, records: str, on: str = "", device: str = "") -> list[str]:
    """The command line."""
    words = [*own_module("reprokit"), "bench", label_here(job), job.benchmark, "--json"]
    words += [f"--param={name}={yaml.scalar(value)}" for name, value in job.params.items()]
    words += [f"--warm-up={job.warm_up}", f"--records={records}"]
    words += [f"--timeout={job.timeout}"] if job.timeout else []
    words += [f"--on={on}"] if on else []
    return [*words, f"--gpus=device={device}"] if device else words


@dataclass(frozen=True)
class ProcessResult:
    """`error` is "" if the process succeeded; `lost` and `log` as in JobAnswer."""

    output: str
    error: str = ""
    lost: bool = False
    log: str = ""


@dataclass
class BenchProcesses:
    """Run processes until `stop` interrupts them and sets `stopped`; then no new one starts."""

    stopped: bool = False
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))

    def run(self, job: Job, on: str = "", device: str = "") -> ProcessResult:
        """Run a job to its end, with at most MOST_OUTPUT bytes of each stream."""
        with tempfile.TemporaryDirectory(prefix="rk-sweep-") as folder:
            return self.run_command(bench_command(job, f"{folder}/records.jsonl", on, device))

    def run_command(self, words: Sequence[str]) -> ProcessResult:
        with self._slots:
            return self._run(words)

    def _run(self, words: Sequence[str]) -> ProcessResult:
        if self.stopped:
            return ProcessResult("", "cancelled", True)
        # In its own session, so that Ctrl-C interrupts only the sweep, which then stops its processes.
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self._running.add(process)
        out, err = bytearray(), bytearray()
        try:
            for _ in exchange(process, out, err, MOST_OUTPUT):
                pass
            process.wait()
        except Flood:
            return ProcessResult("", f"it printed more than {MOST_OUTPUT >> 20} MiB")
        finally:
            self._running.discard(process)
            end(process)
        return result_of(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))

    def stop(self) -> None:
        """Interrupt all processes as Ctrl-C does; they stop their containers."""
        self.stopped = True
        running = list(self._running)
        for process in running:
            interrupt(process)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Send SIGINT, so that `reprokit bench` stops its container."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a running process with its own session, and its children."""
    if process.poll() is None:
        interrupt(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(OSError), process:
        pass


def result_of(code: int, out: str, err: str) -> ProcessResult:
    """Make a result of an exit code and both streams."""
    if code == 0:
        return ProcessResult(out)
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] or lines[-1:]
    what = errors[0][:500] if errors else f"it ended with exit code {code}"
    return ProcessResult("", what, code < 0 or code in _LOST)
