"""Jobs and searches on a real Ray cluster of local nodes."""

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
from tests.support.ray_nodes import RayNodes, ray_nodes
from tests.support.sweeps import RECIPE, by_process, jobs

SWEPT = unique("raysweep")


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    with ray_nodes() as started:
        yield started


@pytest.fixture
def ray(nodes: RayNodes) -> Iterator[Any]:
    with ray_cluster.connected() as connected:
        yield connected


@pytest.fixture
def desk(engine: Engine, debian_12: object, nodes: RayNodes, tmp_path: Path, monkeypatch) -> Iterator[Path]:
    """The recipes are here; their containers and images are gone at the end."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{SWEPT}.yaml").write_text(RECIPE.replace("name: x", f"name: {SWEPT}"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for container in engine.containers([f"reprokit.recipe={SWEPT}"]):
        engine.remove(container.id, force=True)
    for image in engine.images([f"reprokit.recipe={SWEPT}"]):
        engine.remove_image(image.id, force=True)


@pytest.mark.long
@pytest.mark.xdist_group("ray")
def test_200_jobs_on_four_nodes_with_one_killed_twice(nodes, tmp_path, capfd, reported: list[str]):
    """All are recorded, none twice; afterwards nothing is left to do."""
    (tmp_path / "results").mkdir()
    file, notes, recorded = tmp_path / "results" / "x.jsonl", reported, []

    def record(name, records):
        lines.append(tmp_path, f"results/{name}.jsonl", records)
        recorded.extend(records)
        if len(recorded) in (30, 100):
            nodes.kill(-1)
            nodes.add()

    asked = jobs(200)
    with ray_cluster.connected() as ray:
        runner = ray_cluster.runner(ray, measure=by_process)
        result = run(asked, runner, record, lambda result: None)
    records = lines.read(file)
    assert (result.recorded, result.failed) == (200, []), notes
    assert len(records) == len({record.job for record in records}) == 200
    assert {record.params["N"] for record in records} == set(range(200))
    assert len({record.node for record in records}) >= 3 and all(record.node.startswith("ray-") for record in records)
    assert any("was lost" in note for note in notes)
    assert (len(plan(asked, records).jobs), plan(asked, records).done) == (0, 200)
    assert capfd.readouterr().out == ""  # what Ray prints of dead nodes is no part of our output


@pytest.mark.long
@pytest.mark.xdist_group("ray")
def test_a_job_that_needs_a_gpu_finds_none(ray, monkeypatch):
    monkeypatch.setattr(ray_cluster, "_PATIENCE_S", 0)
    runner = ray_cluster.runner(ray, measure=by_process)
    runner.submit(jobs(1, gpu="required"))
    assert [(answer.error, answer.final) for answer in runner.results()] == [("no machine has a GPU", True)]


@pytest.mark.long
@pytest.mark.xdist_group("ray")
def test_an_image_is_requested_of_ray_by_its_digest(ray):
    """Starting it takes podman on the nodes, which is not tested here."""
    image = f"registry.example.org/x@sha256:{'0' * 64}"
    tasks = ray_cluster.runner(ray, image)._measure.__self__
    assert tasks._environment == {"runtime_env": {"image_uri": image}}


@pytest.mark.long
@pytest.mark.xdist_group("ray")
def test_the_sweep_measures_in_containers_of_the_workers(desk):
    (desk / "s.yaml").write_text(f"runs: [{{recipe: {SWEPT}, parameters: {{THREADS: [1, 2], LAYOUT: [row]}}}}]\n")
    words = [sys.executable, "-m", "reprokit", "sweep", "s.yaml", "--runner", "ray", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["recorded"] == 2
    records = lines.read(desk / "results" / f"{SWEPT}.jsonl")
    assert sorted(record.samples for record in records) == [(1.0,), (2.0,)]
    assert all(record.node.startswith("ray-") and record.image_digest for record in records)


def test_without_ray_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="Ray is not installed"), ray_cluster.connected():
        pass


@pytest.mark.long
@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://[::1]:1", "127.0.0.1:99999"])
def test_no_cluster_is_named(monkeypatch, address):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(EngineError, match="no Ray cluster"), ray_cluster.connected():
        pass
