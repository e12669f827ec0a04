"""Images sent to newer engines, in both of their stores."""

from __future__ import annotations

import pytest

from tests.support.images import Images, noise
from tests.support.sender import MB, Sender, arrived, incompressible

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("containerd", [False, True], ids=["graph driver", "containerd"])
def test_newer_engines_get_missing_layers(nodes, images: Images, debian, tmp_path, containerd):
    node, user = nodes["node4"], Sender(nodes, tmp_path / "home")
    base = images.base(f"newer{containerd:d}", {"a": noise(4 * MB, 1)}, ["ENV A=b"])
    first = images.on(base, f"first{containerd:d}", [{"b": noise(MB, 7000)}])
    second = images.on(base, f"second{containerd:d}", [{"b": incompressible(2, 9)}], "LABEL x=y")
    node.start_other_engine(debian, containerd)
    try:
        done = user.send(first, node.login)
        assert done.returncode == 0, done.stderr
        before = node.sent_to()
        done = user.send(first, second, node.login)
        assert done.returncode == 0, done.stderr
        assert 2 * MB < node.sent_to() - before < 2.3 * MB
        assert user.send(second, first, node.login).stdout == f"{node.login}: has them already\n"
        assert not arrived(node)
        engine = node.engine()
        for name in (first, second):
            here, there = images.engine.image(name), engine.image(name)
            assert here["RootFS"]["Layers"] == there["RootFS"]["Layers"]
            assert here["Config"]["Env"] == there["Config"]["Env"]
            assert containerd or here["Id"] == there["Id"]
            # The image is complete: `save` fails if the store lacks a blob.
            assert sum(map(len, engine.save(name))) > 2 * MB
    finally:
        nodes.clear()
        node.stop_engine()
        node.start_engine()
