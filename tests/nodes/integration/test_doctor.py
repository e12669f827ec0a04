"""`doctor --on`: a node with an engine, and one that is down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reprokit.doctor.checks import CHECKS
from reprokit.doctor.examine import examine
from reprokit.doctor.node import examined
from reprokit.nodes.config import find
from tests.support.cluster import Cluster
from tests.support.verbs import run_verb

pytestmark = pytest.mark.engine


def test_a_node_reports_its_engine_and_itself(nodes: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    # The machine that runs the tests is busy.
    monkeypatch.setattr("reprokit.doctor.examined.ENGINE_S", 60)
    with examined(find(nodes["node1"].login), 60) as host:
        found = {finding.rule: finding for finding in examine(host, CHECKS, 120)}
    assert {"engine", "storage", "kernel", "memory", "gpu"} <= set(found)
    assert found["storage"].subjects[0].startswith("engine.storage=")
    assert "mirrors" not in found and "clock" in found


def test_a_node_that_is_down(nodes: Cluster) -> None:
    done = run_verb("doctor", "--on", nodes.down, "--json")
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, answer["ok"]) == (4, False)
    assert [finding["rule"] for finding in answer["findings"]] == ["node.unreachable"]
