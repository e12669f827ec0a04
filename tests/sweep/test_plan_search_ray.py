"""Searches on a real Ray cluster of local nodes."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from contextlib import suppress
from functools import partial

import pytest

from reprokit.container.execute import execute
from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.results import lines
from reprokit.sweep import ray_cluster
from reprokit.sweep.plan_search import ClusterSearch
from tests.support.names import unique
from tests.support.processes import send_when_asleep
from tests.support.searches import SUMMARY, Journal, job_of, measured_eagerly, tiny_search
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.long]

NAME = unique("raytune")
# Stands for python3 and the search in the image: it asks for two plans, one after the other, and measures whatever it
# is told to. The second plan takes ten minutes when it is measured for the first time.
PROGRAM = """#!/bin/sh
shape='"batch": 8, "seq": 256, "mask": "strided", "heads": 12, "head_size": 64, "layers": 1, "dtype": "float32"'
machine='"torch": "2.13.0", "processor": "EPYC", "instruction_sets": "", "threads": 1'
verb=$3
[ "$1" != -c ] || exit 0
for word; do
    [ "$last" != --results ] || results=$word
    case "$verb $word" in "measure "*" "*)
        printf '{"metric": "operator_fusion.relative_time", "unit": "1", "samples": [1.5, 1.25], "params": {'
        echo "$shape, \\"device\\": \\"cpu\\", $machine, \\"weights\\": \\"random\\"," \\
            "\\"job\\": \\"${word%% *}\\", \\"id\\": \\"${word#* }\\"}}";;
    esac
    last=$word
done
case "$verb $word" in
    "measure plan 41115") [ -e /tmp/slow ] || { touch /tmp/slow; sleep 600; } ;;
esac
[ "$verb" != measure ] || exit 0
case "$(cat "$results" 2>&1 | grep -c metric)" in
    0) echo '{"missing": ["plan 7"]}' ;;
    1) echo '{"missing": ["plan 41115"]}' ;;
    *) echo 'SUMMARY' ;;
esac
""".replace("SUMMARY", json.dumps({"summary": SUMMARY}))
RECIPE = f"""
name: {NAME}
paper: {{title: A paper, venue: none, year: 2026, licence: none}}
variants:
  cpu:
    base: debian:12
    blocks:
      - run:
          in_image: true
          commands:
            - echo {base64.b64encode(PROGRAM.encode()).decode()} | base64 -d > /usr/local/bin/python3
            - chmod 755 /usr/local/bin/python3
          products: [/usr/local/bin/python3]
"""


@pytest.fixture
def ray(ray_cluster_nodes):
    with ray_cluster.connected() as connected:
        yield connected


def test_nodes_measure_a_search_without_one_that_is_unlike_and_with_one_that_fails_once(ray, tmp_path):
    """Everything is real but the container: the search, its measurements by torch, and Ray."""
    journal = Journal(tmp_path / "journal.jsonl", tiny_search("random", "reward", budget=4))
    nodes = [node for node in ray.nodes() if node["Alive"]]
    assert len(nodes) >= 3
    measure = partial(measured_eagerly, unlike=nodes[0]["NodeID"], failing=nodes[1]["NodeID"], folder=str(tmp_path))
    notes, kept = [], []

    def keep(records):
        journal.keep(records)
        kept.extend(records)

    runner = ray_cluster.runner(ray, notes.append, measure=measure)
    search = ClusterSearch(
        journal.search, job_of(journal.search), runner, journal.replay, keep, notes.append, lambda done, count: None
    )
    machine = search.run()
    assert journal.reader.summary is not None and len(journal.reader.summary.rows) == 2
    assert sorted(journal.names) == sorted(journal.asked) and len(set(journal.asked)) == len(journal.asked)
    assert {name.split()[0] for name in journal.names} == {"plan", "confirmed", "versus"}
    assert machine["processor"] != "another" and all(machine.items() <= record.params.items() for record in kept)
    (left_out,) = [note for note in notes if "is left out: processor 'another' instead of" in note]
    # Ray may lose a node of a busy machine, whose job is tried again too.
    assert len([n for n in notes if "is tried again" in n and n.endswith(": the disk is full")]) == 1
    assert left_out.partition(" ")[0] not in {record.node for record in kept} and len({r.node for r in kept}) >= 2


@pytest.mark.engine
def test_the_verb_measures_in_containers_of_the_workers_and_goes_on_after_ctrl_c(
    ray_cluster_nodes, debian_12, tmp_path, monkeypatch
):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{NAME}.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-m", "reprokit", "tune", NAME, "--runner", "ray", "--json"]
    file, engine = tmp_path / "results" / f"{NAME}.jsonl", Engine.connect()

    def running():
        return [c["Id"] for c in engine.containers([f"reprokit.recipe={NAME}"]) if c["State"] == "running"]

    def measuring_slowly():
        with suppress(EngineError):  # a worker stops its container after each job
            return any(execute(engine, each, ["test", "-e", "/tmp/slow"]).exit_code == 0 for each in running())

    stopped = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(measuring_slowly, 900)
        send_when_asleep(stopped.pid)
        out, errors = stopped.communicate(timeout=200)
        assert (stopped.returncode, out) == (130, ""), errors
        assert "interrupted: 1 measurements are recorded; the same command continues" in errors
        assert not running()
        (before,) = lines.read(file)

        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "recorded 1 new measurements" in done.stderr, done.stderr
        found, records = json.loads(done.stdout), lines.read(file)
        assert found["plan"] == 41115 and records[0] == before
        assert [record.params["id"] for record in records] == ["7", "41115"]
        assert all(record.node.startswith("ray-") and record.image_digest for record in records)
        assert found["records"] == [json.loads(record.to_json()) for record in records]
    finally:
        stopped.kill()
        for container in engine.containers([f"reprokit.recipe={NAME}"]):
            engine.remove(container["Id"], force=True)
        for image in engine.images([f"reprokit.recipe={NAME}"]):
            engine.remove_image(image["Id"], force=True)
