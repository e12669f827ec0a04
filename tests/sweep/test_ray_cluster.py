"""Jobs on a real Ray cluster of local nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError
from reprokit.results import lines
from reprokit.sweep import ray_cluster
from reprokit.sweep.plan import plan
from reprokit.sweep.run import run
from tests.support.names import unique
from tests.support.processes import send_when_asleep
from tests.support.ray_nodes import RayNodes
from tests.support.sweeps import RECIPE, by_process, jobs
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.long]


@pytest.fixture
def ray(ray_cluster_nodes: RayNodes) -> Iterator[Any]:
    with ray_cluster.connected() as connected:
        yield connected


def test_200_jobs_on_four_nodes_with_one_killed_twice(ray_cluster_nodes, tmp_path, capfd):
    """All are recorded, none twice; afterwards nothing is left to do."""
    (tmp_path / "results").mkdir()
    file, notes, recorded = tmp_path / "results" / "x.jsonl", [], []

    def record(name, records):
        lines.append(tmp_path, f"results/{name}.jsonl", records)
        recorded.extend(records)
        if len(recorded) in (30, 100):
            ray_cluster_nodes.kill(-1)
            ray_cluster_nodes.add()

    asked = jobs(200)
    with ray_cluster.connected() as ray:
        runner = ray_cluster.runner(ray, notes.append, measure=by_process)
        result = run(asked, runner, record, notes.append, lambda result: None)
    found = lines.read(file)
    assert (result.recorded, result.failed) == (200, []), notes
    assert len(found) == len({record.job for record in found}) == 200
    assert {record.params["N"] for record in found} == set(range(200))
    assert len({record.node for record in found}) >= 3 and all(record.node.startswith("ray-") for record in found)
    assert any("was lost" in note for note in notes)
    assert (len(plan(asked, found).jobs), plan(asked, found).done) == (0, 200)
    assert capfd.readouterr().out == ""  # what Ray prints of dead nodes is no part of our output


def test_a_job_that_needs_a_gpu_finds_none(ray, monkeypatch):
    monkeypatch.setattr(ray_cluster, "_PATIENCE_S", 0)
    runner = ray_cluster.runner(ray, print, measure=by_process)
    runner.submit(jobs(1, gpu="required"))
    assert [(answer.error, answer.final) for answer in runner.results()] == [("no machine has a GPU", True)]


def test_ctrl_c_ends_the_workers_processes(ray_cluster_nodes, tmp_path):
    """A sweep whose `reprokit bench` never ends, in a process of its own."""
    program = f"""
import os, sys
from reprokit.sweep import ray_cluster
from reprokit.sweep.run import run
from tests.support.sweeps import forever, jobs
with ray_cluster.connected() as ray:
    run(jobs(4, path={str(tmp_path)!r}), ray_cluster.runner(ray, print, measure=forever), None, print, print)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: list(tmp_path.glob("started-*")), 200)
    started = [int(file.name.partition("-")[2]) for file in tmp_path.glob("started-*")]
    send_when_asleep(process.pid)
    _, errors = process.communicate(timeout=200)
    assert process.returncode and "KeyboardInterrupt" in errors
    wait_for(lambda: not any(Path(f"/proc/{number}").exists() for number in started))


@pytest.mark.engine
def test_the_verb_measures_in_containers_of_the_workers(ray_cluster_nodes, debian_12, tmp_path, monkeypatch):
    name = unique("raysweep")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{name}.yaml").write_text(RECIPE.replace("name: x", f"name: {name}"))
    run = f"{{recipe: {name}, parameters: {{THREADS: [1, 2], LAYOUT: [row]}}}}"
    (tmp_path / "s.yaml").write_text(f"runs: [{run}]\n")
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-m", "reprokit", "sweep", "s.yaml", "--runner", "ray", "--json"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["recorded"] == 2
        found = lines.read(tmp_path / "results" / f"{name}.jsonl")
        assert sorted(record.samples for record in found) == [(1.0,), (2.0,)]
        assert all(record.node.startswith("ray-") and record.image_digest for record in found)
    finally:
        engine = Engine.connect()
        for container in engine.containers([f"reprokit.recipe={name}"]):
            engine.remove(container["Id"], force=True)
        for image in engine.images([f"reprokit.recipe={name}"]):
            engine.remove_image(image["Id"], force=True)


def test_an_image_is_asked_of_ray_by_its_digest(ray):
    """Starting it takes podman on the nodes, which is not tested here."""
    image = f"registry.example.org/x@sha256:{'0' * 64}"
    tasks = ray_cluster.runner(ray, print, image)._measure.__self__
    assert tasks._environment == {"runtime_env": {"image_uri": image}}


def test_without_a_cluster_or_ray_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="Ray is not installed"), ray_cluster.connected():
        pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://[::1]:1", "127.0.0.1:99999"])
def test_no_cluster_is_named(monkeypatch, address):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(EngineError, match="no Ray cluster"), ray_cluster.connected():
        pass
