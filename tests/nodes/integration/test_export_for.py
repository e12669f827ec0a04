"""An export without the layers that a node has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.images import Images, noise
from tests.support.sender import MB

pytestmark = pytest.mark.engine


def test_layers_that_the_node_has_are_excluded(nodes: Cluster, images: Images, tmp_path: Path) -> None:
    machine = nodes.nodes[0]
    base = images.base("held", {"a": noise(2 * MB, 77)})
    upon = images.on(base, "upon-held", [{"b": noise(MB, 40000)}])
    out = tmp_path / "x.rkit"
    command = [sys.executable, "-m", "reprokit", "export", upon, "--for", machine.login, "-o", str(out), "--json"]

    def absent() -> list[str]:
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout)["absent"])

    assert absent() == []
    there = machine.engine()
    there.load(images.engine.save(base))
    try:
        assert absent() == images.engine.image(base)["RootFS"]["Layers"]
        assert out.stat().st_size < MB
    finally:
        there.remove_image(base, force=True)
    down = subprocess.run([*command[:-4], nodes.down, *command[-3:]], capture_output=True, text=True)
    assert (down.returncode, nodes.down in down.stderr) == (4, True)
