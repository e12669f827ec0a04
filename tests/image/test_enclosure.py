"""The network of a locked build has this host in it, and no way out."""

from __future__ import annotations

import contextlib
import io
import socket
from collections.abc import Iterator

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError
from reprokit.image.enclosure import HOST, enclosure
from tests.support.builds import root_file_system
from tests.support.names import unique
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine

# A server in a network apart, as the world is.
LISTEN = """
use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalPort => 7000, Listen => 5) or die;
while (my $client = $server->accept) { close $client }
"""
LOOK = """
reach() {{ timeout 3 bash -c "exec 3<>/dev/tcp/$1/$2" 2>/dev/null && echo "$3 answers" || echo "$3 does not answer"; }}
reach {address} {port} "this host"
reach {world} 7000 "the world"
getent hosts example.org || echo "no name is known"
"""


def answers(address: str) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, 7000), 5):
        return True
    return False


@pytest.fixture
def world(engine: Engine, bookworm) -> Iterator[str]:
    """The address of a server on the engine's own bridge."""
    name = unique("enclosure")
    config = {"Image": bookworm.base.image_id, "Cmd": ["perl", "-e", LISTEN], "HostConfig": {"NetworkMode": "bridge"}}
    engine.create_container(name, config)
    try:
        engine.start(name)
        address = engine.container(name)["NetworkSettings"]["IPAddress"]
        wait_for(lambda: answers(address))
        yield address
    finally:
        engine.remove(name, force=True)


def ran(engine: Engine, image: str, network: str, script: str) -> str:
    name = unique("enclosure")
    config = {"Image": image, "Cmd": ["bash", "-c", script], "HostConfig": {"NetworkMode": network}}
    engine.create_container(name, config)
    try:
        engine.start(name)
        return b"".join(engine.logs(name, follow=True)).decode()
    finally:
        engine.remove(name, force=True)


def test_it_has_this_host_in_it_and_no_way_out(engine: Engine, bookworm, world: str):
    label = f"{unique('enclosure')}:v"
    said: list[str] = []
    with enclosure(engine, label, bookworm.base.image_id, said.append) as network:
        assert said == [] and network != HOST
        with socket.create_server((network.address, 0)) as server:
            script = LOOK.format(address=network.address, port=server.getsockname()[1], world=world)
            seen = ran(engine, bookworm.base.image_id, network.name, script)
            free = ran(engine, bookworm.base.image_id, "host", script)
        assert seen.splitlines() == ["this host answers", "the world does not answer", "no name is known"]
        assert "the world answers" in free
        with enclosure(engine, label, bookworm.base.image_id, said.append) as again:
            assert again != HOST  # what a killed build left is replaced
    with pytest.raises(EngineError):
        ran(engine, bookworm.base.image_id, network.name, "true")


def test_a_base_that_cannot_knock_is_built_on_the_hosts_network_and_that_is_said(engine: Engine):
    image = f"{unique('enclosure')}:1"
    engine.import_image(io.BytesIO(root_file_system()), *image.split(":"), ["ENV PATH=/bin"])
    said: list[str] = []
    try:
        with enclosure(engine, "paper:v", image, said.append) as network:
            assert network == HOST
    finally:
        with contextlib.suppress(ReprokitError):
            engine.remove_image(image, force=True)
    assert len(said) == 1 and "on the host's network" in said[0]
