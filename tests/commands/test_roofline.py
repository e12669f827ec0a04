"""`reprokit results roofline` without a container: data sheets."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit.bench.hardware import Hardware
from reprokit.engine import ImageInfo
from reprokit.errors import UsageError
from reprokit.profiling.peaks import MeasuredPeaks


def test_data_sheets_of_gpus(call, monkeypatch):
    data = json.loads(call("results", "roofline", "--device", "V100", "--json").stdout)
    (sheet,) = data["data_sheets"]
    assert (sheet["bandwidth"], data["measured"]) == (pytest.approx(898.048), [])
    shown = call("results", "roofline", "--device", "Tesla V100-SXM2-16GB", "--plot", "roof.svg").stdout
    assert "877 MHz x 4096 bit x 2" in shown and "898" in shown and "source: " in shown
    assert "898 GB/s" in Path("roof.svg").read_text()
    monkeypatch.setattr("reprokit.host.gpu.gpus", list)
    shown = call("results", "roofline").stdout  # all GPUs that have a data sheet
    assert {"V100", "A100 80GB", "H100"} <= set(re.split(", |: ", " ".join(shown.split()))) and len(shown) < 600


def engine(on, image):
    """A stand-in for an engine: the name of its host, and the image that it has."""
    return SimpleNamespace(host=SimpleNamespace(name=on), image=lambda name: image)


@pytest.fixture
def locked(recipe, monkeypatch):
    """A container with two processors, whose peaks are made up; the machines that were locked."""
    recipe("x", 'variants: {cpu: {base: "debian:12"}}\n')
    locks = []

    @contextmanager
    def lock(gpus, host):
        locks.append((gpus, host.name))
        yield

    def measured(engine, container, ask, threads):
        return [MeasuredPeaks(threads=n, peaks={"float32": n}, bandwidths={}) for n in threads]

    monkeypatch.setattr(
        "reprokit.commands._options.engine_on", lambda on: nullcontext(engine(on, ImageInfo("sha256:1")))
    )
    monkeypatch.setattr("reprokit.profiling.roofline.gpus_for", lambda *_: "none")
    monkeypatch.setattr("reprokit.profiling.roofline.container_of_run", lambda *_: nullcontext("c"))
    monkeypatch.setattr("reprokit.profiling.roofline.machine_lock", lock)
    monkeypatch.setattr("reprokit.profiling.roofline.probe", lambda ask: Hardware("EPYC", 2))
    monkeypatch.setattr("reprokit.profiling.peaks.processors", measured)
    return locks


@pytest.mark.parametrize(("threads", "counts"), [((), [1, 2]), (("--threads", "2"), [2])])
def test_the_machine_that_is_measured_is_locked(call, locked, threads, counts):
    data = json.loads(call("results", "roofline", "x:cpu", "--json", "--on", "alpha", *threads).stdout)
    assert [each["threads"] for each in data["measured"]] == counts
    assert locked == [(None, "alpha")]


def test_what_is_refused_waits_for_no_benchmark(error, locked, monkeypatch):
    refused = error(UsageError, "results", "roofline", "x:cpu", "--device", "Voodoo 2")
    assert "no data sheet of 'Voodoo 2'" in refused.message and locked == []
    refused = error(UsageError, "results", "roofline", "x:cpu", "--threads", "1,3")
    assert refused.message == "--threads 3 is more than the container's 2 processors"
    locked.clear()
    monkeypatch.setattr("reprokit.commands._options.engine_on", lambda on: nullcontext(engine(on, None)))
    assert "x:cpu has not been built" in error(UsageError, "results", "roofline", "x:cpu").message and locked == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--threads", "1,x"), "not a list of numbers"),
        (("--threads", "0"), "not a list of numbers"),
        (("--threads", "99999999999999999999"), "not a list of numbers"),
        (("--plot", "roof.txt"), ".svg, .png or .pdf"),
    ],
)
def test_wrong_usage(call, options, message):
    result = call("results", "roofline", *options)
    assert message in result.exception.message
