"""A pull that is killed, and repeated."""

from __future__ import annotations

import io
import re
import subprocess
import time

import pytest

from reprokit.engine import Engine
from reprokit.oci.loader import LOADING
from tests.support.images import tar_of
from tests.support.registry import Call, Registry, command, data, forget
from tests.support.valve import Valve
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine


def test_a_killed_pull_resumes_after_complete_layers(engine: Engine, name: str, call: Call):
    count = 8
    dockerfile = "FROM scratch\n" + "".join(f"ADD {n}.tar /\n" for n in range(count))
    layers = {f"{n}.tar": data(4 << 20) for n in range(count)}
    context = io.BytesIO(tar_of({"Dockerfile": dockerfile.encode(), **layers}))
    labels = {"reprokit.recipe": name, "reprokit.variant": "cpu"}
    for event in engine.build(context, tag=f"reprokit/{name}:cpu", labels=labels, rm=True):
        assert "error" not in event, event
    made = (engine.image(f"reprokit/{name}:cpu") or {})["Id"]
    anchors = [f"{LOADING}={made}"]
    with Registry(engine) as registry:
        digest = call("push", f"{registry.host}/{name}:cpu").stdout.strip()
        forget(engine, f"reprokit/{name}:cpu")
        # Three layers come at a time, so that two or three of the eight are complete when it shuts.
        valve = Valve(registry.host, limit=24 << 20)
        digest = digest.replace(registry.host, valve.host)
        with subprocess.Popen(command("pull", digest), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as pulling:
            wait_for(lambda: engine.images(anchors) or pulling.poll() is not None)
            pulling.kill()
        assert engine.image(digest) is None and engine.images(anchors)  # only unnamed layers are present
        time.sleep(1)  # the engine drops layers of no image
        valve.open()
        done = call("pull", digest)
        assert done.returncode == 0, done.stderr
        there = re.search(r"(\d) layers? pulled, (\d) already present", done.stdout)
        assert there and int(there[2]) >= 1 and int(there[1]) + int(there[2]) == count, done.stdout
        assert (engine.image(f"reprokit/{name}:cpu") or {})["Id"] == made
        assert engine.images(anchors) == []
        valve.close()
