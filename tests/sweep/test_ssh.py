"""Which nodes a sweep's file may name. Jobs on real nodes: tests/nodes/integration/test_sweep.py."""

from __future__ import annotations

import pytest

from reprokit.errors import UsageError
from reprokit.sweep.ssh import nodes_of


def test_only_nodes_of_the_users_configuration(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("nodes: {gpu1: root@10.0.0.1, gpu2: {address: 10.0.0.2}}\n")
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
    assert [(node.name, node.host) for node in nodes_of(["gpu1", "gpu2", "gpu1"], "s")] == [
        ("gpu1", "10.0.0.1"),
        ("gpu2", "10.0.0.2"),
    ]
    for name in ("root@10.0.0.1", "stranger.example.org", "-oProxyCommand=touch x"):
        with pytest.raises(UsageError, match="is no node of your configuration"):
            nodes_of(["gpu1", name], "s")
