"""This machine as the place of all jobs."""

from __future__ import annotations

import pytest

from reprokit.host.gpu import GpuDevice
from reprokit.sweep import here
from reprokit.sweep.bench_process import BenchProcesses, ProcessResult
from tests.support.sweeps import jobs


@pytest.mark.parametrize("count", [0, 2])
def test_each_gpu_of_this_machine_is_a_device(monkeypatch, count):
    monkeypatch.setattr("reprokit.host.gpu.gpus", lambda: [GpuDevice("V100", "", "7.0")] * count)
    seen = []

    def run(self, job, on="", device=""):
        seen.append((on, device))
        return ProcessResult("done")

    monkeypatch.setattr(BenchProcesses, "run", run)
    runner = here.runner(print)
    runner.submit(jobs(4, gpu="required"))
    answers = list(runner.results())
    if count:
        assert {(each.output, each.place.name) for each in answers} == {("done", "")}
        assert {device for _, device in seen} == {"0", "1"} and {on for on, _ in seen} == {""}
    else:
        assert {each.error for each in answers} == {"no machine has a GPU"} and not seen
