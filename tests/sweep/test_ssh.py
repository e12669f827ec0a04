"""Which nodes a sweep's file may name. Jobs on real nodes: tests/nodes/integration/test_sweep.py."""

from __future__ import annotations

import pytest

from reprokit.config.nodes import Node
from reprokit.errors import UsageError
from reprokit.nodes import probe, survey
from reprokit.nodes.inventory import Inventory
from reprokit.oci.store import Form
from reprokit.sweep.ssh import nodes_of, runner


def test_only_nodes_of_the_users_configuration(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("nodes: {gpu1: root@10.0.0.1, gpu2: {address: 10.0.0.2}}\n")
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
    assert [(node.name, node.host) for node in nodes_of(["gpu1", "gpu2", "gpu1"], "s")] == [
        ("gpu1", "10.0.0.1"),
        ("gpu2", "10.0.0.2"),
    ]
    for name in ("root@10.0.0.1", "stranger.example.org", "-oProxyCommand=touch x"):
        with pytest.raises(UsageError, match="is not a node of your configuration"):
            nodes_of(["gpu1", name], "s")


def test_two_names_of_one_machine_do_not_run_jobs_side_by_side(monkeypatch):
    """They would distort each other's results."""
    facts = "reprokit:uid 1\nreprokit:gid 1\nreprokit:cache /c\n"
    boots = {"a": "boot 1\nnetwork 1", "again": "boot 1\nnetwork 1", "b": "boot 2\nnetwork 1", "unknown": "network 1"}
    known = {name: "".join(f"reprokit:{line}\n" for line in lines.split("\n")) for name, lines in boots.items()}
    inventory = Inventory("20", "overlay2", Form.PLAIN, None, ())
    answers = [
        survey.NodeAnswer(Node(name, name), probe.parse(facts + lines), inventory) for name, lines in known.items()
    ]
    monkeypatch.setattr(survey, "survey", lambda nodes, limit_s: answers)
    notes: list[str] = []
    assert [place.key for place in runner([], notes.append).places()] == ["a", "b", "unknown"]
    assert notes == ["again is left out: it is the same machine as a"]


@pytest.mark.slow
def test_a_node_names_no_more_gpus_than_a_machine_has(monkeypatch):
    """Each of them would have a thread and a process here."""
    facts = "reprokit:uid 1\nreprokit:gid 1\nreprokit:cache /c\n" + "reprokit:gpu A, 535.54.03, 8.0\n" * 100_000
    node = Node("lab", "lab")
    answer = survey.NodeAnswer(node, probe.parse(facts), Inventory("20", "overlay2", Form.PLAIN, None, ()))
    monkeypatch.setattr(survey, "survey", lambda nodes, limit_s: [answer])
    (place,) = runner([node], print).places()
    assert place.gpus == tuple(map(str, range(64)))
