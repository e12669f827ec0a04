"""A sweep on nodes, one of which fails, with real engines and ssh."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from reprokit.results.lines import read
from tests.support.builds import TOOLS, root_file_system
from tests.support.cluster import Cluster
from tests.support.names import unique
from tests.support.verbs import run_verb

pytestmark = pytest.mark.engine
RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2024, licence: none}}
variants:
  cpu: {{base: "debian:12"}}
benchmarks:
  spmm:
    command: 'echo "took $N ms" | grep took'
    parse: {{values: [{{pattern: 'took (?P<value>\\S+) ms', metric: spmm, unit: ms}}]}}
"""
NEEDED = (*TOOLS, "bash", "tail", "id", "kill", "pwd", "touch", "env")
HOLDERS = ("node1", "node2", "node3")


@pytest.fixture
def name(nodes: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe whose image is on three nodes; that of node3 lacks the program that the benchmark calls."""
    name = unique("swept")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{name}.yaml").write_text(RECIPE.format(name=name))
    addresses = {**{node: nodes[node].login for node in HOLDERS}, "away": nodes.down, "same": nodes["node1"].login}
    (tmp_path / "config.yaml").write_text(json.dumps({"nodes": addresses}))
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.chdir(tmp_path)
    for node in HOLDERS:
        tools = NEEDED if node == "node3" else (*NEEDED, "grep")
        changes = ["ENV PATH=/bin", f"LABEL reprokit.recipe={name} reprokit.variant=cpu"]
        nodes[node].engine().import_image(io.BytesIO(root_file_system(tools)), f"reprokit/{name}", "cpu", changes)
    return name


def test_jobs_run_on_all_nodes_and_failures_elsewhere(name: str, tmp_path: Path):
    file = tmp_path / "s.yaml"
    run = f"{{recipe: {name}, parameters: {{N: [1, 2, 3, 4, 5, 6]}}}}"
    file.write_text(f"runs: [{run}]\nnodes: [node1, node2, node3, away, same]\n")
    done = run_verb("sweep", file, "--json")
    assert done.returncode == 0, done.stderr
    data, records = json.loads(done.stdout), read(tmp_path / "results" / f"{name}.jsonl")
    assert (data["recorded"], data["failed"], data["plan"]["runner"]) == (6, [], "ssh")
    assert sorted(record.samples[0] for record in records) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert {record.node for record in records} == {"node1", "node2"} and len({r.job for r in records}) == 6
    assert "same is left out: it is the same machine as node1" in done.stderr
    assert "away is left out: " in done.stderr and "is tried again: node3: " in done.stderr
