"""Jobs on this machine."""

from __future__ import annotations

from reprokit.host.machine import Machine
from reprokit.sweep.bench_process import BenchProcesses
from reprokit.sweep.places import PlaceRunner
from reprokit.sweep.runner import JobPlace


def runner() -> PlaceRunner:
    gpus = tuple(str(number) for number in range(len(Machine().gpus())))
    processes = BenchProcesses()
    return PlaceRunner(
        lambda: [JobPlace("here", "", gpus)],
        lambda job, place, device: processes.run(job, device=device),
        processes.stop,
    )
