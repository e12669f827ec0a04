"""Builds by a rootless engine, whose network is not this host's."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.image.enclosure import HOST, enclosure
from reprokit.image.events import Output
from tests.support.builds import TOOLS, root_file_system
from tests.support.rootless_engine import RootlessEngine

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which takes root"),
]

# bash's own means: what the gateway says to whom knows no password.
ASK = (
    "place=${http_proxy#*@}; exec 3<>/dev/tcp/${place%:*}/${place#*:}; "
    r'printf "GET http://example.org/ HTTP/1.0\r\n\r\n" >&3; cat <&3'
)


@pytest.fixture
def rootless(short_path: Path) -> Iterator[Engine]:
    """A rootless engine that has the base image of `builds`."""
    folder = short_path / "engine"
    folder.mkdir()
    short_path.chmod(0o755)
    started = RootlessEngine(folder)
    yield started.connect()
    started.stop()


def test_a_build_reaches_the_gateway(rootless: Engine, builds, builder: str, monkeypatch):
    if builder == "buildkit":
        monkeypatch.setenv("DOCKER_HOST", f"unix://{rootless.socket}")
    assert rootless.rootless
    base = builds.target.variant.base
    rootless.import_image(io.BytesIO(root_file_system((*TOOLS, "bash"))), *base.split(":"), ["ENV PATH=/bin"])
    builds(f"RUN bash -c '{ASK}'\n", engine=rootless, builder=builder)
    said = [event.line for event in builds.seen(Output)]
    assert any("407" in line for line in said) and any("belongs to a running build" in line for line in said), said


def test_a_closed_network_reaches_it_too(rootless: Engine):
    rootless.import_image(io.BytesIO(root_file_system((*TOOLS, "bash"))), "base", "1", ["ENV PATH=/bin"])
    said: list[str] = []
    with enclosure(rootless, "paper:v", "base:1", said.append) as network:
        assert said == [] and network != HOST  # a container in it was heard here
