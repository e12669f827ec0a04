"""An export without the layers that a node has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.images import Images, noise
from tests.support.sender import MB
from tests.support.verbs import run_verb

pytestmark = pytest.mark.engine


def test_layers_that_the_node_has_are_excluded(nodes: Cluster, images: Images, tmp_path: Path) -> None:
    machine = nodes.nodes[0]
    base = images.base("held", {"a": noise(2 * MB, 77)})
    upon = images.on(base, "upon-held", [{"b": noise(MB, 40000)}])
    out = tmp_path / "x.rkit"

    def absent() -> list[str]:
        done = run_verb("export", upon, "--for", machine.login, "-o", out, "--json")
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout)["absent"])

    assert absent() == []
    machine.engine().load(images.engine.save(base))
    assert absent() == images.engine.image(base)["RootFS"]["Layers"]
    assert out.stat().st_size < MB
    down = run_verb("export", upon, "--for", nodes.down, "-o", out, "--json")
    assert (down.returncode, nodes.down in down.stderr) == (4, True)
