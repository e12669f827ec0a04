"""Jobs as tasks of a Ray cluster, whose nodes may come and go. Ray starts each task on the node that is chosen here.

Ray unpickles what a node sends, so its nodes are trusted as this machine is. What the benchmarks print is not.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reprokit.errors import EngineError, UsageError
from reprokit.installation import extra_command
from reprokit.sweep.bench_process import BenchProcesses, ProcessResult
from reprokit.sweep.places import PlaceRunner
from reprokit.sweep.plan import Job
from reprokit.sweep.runner import JobPlace, alias

# A node that was killed may be started again.
_PATIENCE_S = 60.0
_CONNECT_S = 10.0
Measure = Callable[[Job, str], ProcessResult]


@contextlib.contextmanager
def connected() -> Iterator[Any]:
    """The module ray, connected to the cluster of `$RAY_ADDRESS` or of this machine. Raises UsageError, EngineError."""
    try:
        import ray
    except ImportError:
        raise UsageError("Ray is not installed", hint=f"install it: `{extra_command('ray')}`") from None
    address = os.environ.get("RAY_ADDRESS") or "auto"
    hint = "`ray start --head` starts a cluster; RAY_ADDRESS names another one"
    if found := re.fullmatch(r"(.+):([0-9]{1,5})", address.removeprefix("ray://")):
        try:  # if nothing answers, Ray ends the process
            socket.create_connection((found[1].strip("[]"), int(found[2])), _CONNECT_S).close()
        except (OSError, OverflowError) as error:
            raise EngineError(f"no Ray cluster: {error}", address, hint) from None
    # Ray prints the logs of nodes that died to standard output, where `--json` has its document.
    with contextlib.redirect_stdout(_Nowhere()):
        try:
            with _neutral_folder():
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # Ray has no common class for these
            raise EngineError(f"no Ray cluster: {str(error).partition(chr(10))[0][:300]}", address, hint) from None
        try:
            yield ray
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _neutral_folder() -> Iterator[None]:
    """Ray's workers import from the folder in which it is initialised. The current one may be a stranger's checkout."""
    before = Path.cwd()
    os.chdir("/")
    try:
        yield
    finally:
        os.chdir(before)


class _Nowhere(io.TextIOBase):
    def write(self, text: str) -> int:
        return len(text)


def runner(ray: Any, image: str = "", measure: Measure | None = None) -> PlaceRunner:
    """A runner on all nodes of the connected cluster.

    With `image`, `NAME@sha256:...`, Ray starts the workers in this image, and they run the benchmarks directly. It has
    to contain Ray and reprokit. `measure` replaces what a worker does.
    """
    tasks = _Tasks(ray, image, measure or (_in_image if image else _by_bench))
    return PlaceRunner(tasks.places, tasks.measure, tasks.stop, _PATIENCE_S)


def _by_bench(job: Job, device: str) -> ProcessResult:
    """What a worker does: it runs `reprokit bench`, and interrupts it when the task is cancelled."""
    return BenchProcesses().run(job, device=device)


def _in_image(job: Job, device: str) -> ProcessResult:
    from reprokit.sweep.inside import in_image

    return in_image(job)


def _task(job: Job, measure: Measure) -> tuple[str, str, bool]:
    import ray

    # Ray blocks it in its processes, and the benchmark's process would inherit that: nothing could interrupt it.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    gpus = ray.get_gpu_ids()
    found = measure(job, str(gpus[0]) if gpus else "")
    return found.output, found.error, found.lost


class _Tasks:
    def __init__(self, ray: Any, image: str, measure: Measure) -> None:
        self._ray, self._measure = ray, measure
        # A lost task is submitted again by the sweep, so that nothing runs twice unseen.
        self._task = ray.remote(max_retries=0)(_task)
        self._environment = {"runtime_env": {"image_uri": image}} if image else {}
        self._refs: set[Any] = set()
        self._lock = threading.Lock()
        self._resources: dict[str, dict[str, float]] = {}

    def places(self) -> Sequence[JobPlace]:
        found = []
        for node in self._ray.nodes():
            if not node["Alive"] or not node["Resources"].get("CPU"):  # a head without work has no processors
                continue
            self._resources[node["NodeID"]] = node["Resources"]
            gpus = tuple(str(number) for number in range(int(node["Resources"].get("GPU", 0))))
            found.append(JobPlace(node["NodeID"], alias("ray", str(node["NodeName"])), gpus))
        return found

    def measure(self, job: Job, place: JobPlace, device: str) -> ProcessResult:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # One GPU, or all processors of the node: Ray gives them to nobody else meanwhile.
        share = {"num_gpus": 1, "num_cpus": 1} if device else {"num_cpus": self._resources[place.key].get("CPU", 1)}
        where = NodeAffinitySchedulingStrategy(place.key, soft=False)
        ref = self._task.options(scheduling_strategy=where, **share, **self._environment).remote(job, self._measure)
        with self._lock:
            self._refs.add(ref)
        try:
            output, error, lost = self._ray.get(ref)
            return ProcessResult(str(output), str(error), bool(lost))
        except self._ray.exceptions.RayError as error:
            return ProcessResult("", f"the worker was lost: {type(error).__name__}", True)
        finally:
            with self._lock:
                self._refs.discard(ref)

    def stop(self) -> None:
        with self._lock:
            refs = list(self._refs)
        for ref in refs:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.cancel(ref)  # an interrupt in the task
        if refs:
            self._ray.wait(refs, num_returns=len(refs), timeout=_PATIENCE_S)
