"""The network of a locked build: this host's gateway is in it, and no way out.

The gateway refuses what goes through it. A program that asks for no proxy would go past it, were it on the host's own
network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError
from reprokit.host.listen import listen

_KNOCK_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Network:
    """What a build runs in: the engine's name of it, and this host's address there."""

    name: str
    address: str


HOST = Network("host", "127.0.0.1")


@contextmanager
def enclosure(engine: Engine, label: str, image: str, say: Callable[[str], None]) -> Iterator[Network]:
    """A closed network for the build of `label` (`NAME:VARIANT`), of which each user runs one at a time.

    A firewall may keep containers from this host. So a container of `image` knocks first, and where none is heard the
    build gets the host's network, and its user a line.
    """
    name = f"reprokit-build-{label.replace(':', '-')}-{os.getuid()}"
    try:
        address = engine.create_closed_network(name)
    except EngineError as error:
        say(f"the build is on the host's network, as the engine gives no closed one: {error.message}")
        yield HOST
        return
    try:
        if _is_heard(engine, name, address, image):
            yield Network(name, address)
        else:
            say("the build is on the host's network, as containers of a closed one do not reach this host: a firewall?")
            yield HOST
    finally:
        with suppress(ReprokitError):  # what stays is replaced by the next build
            engine.remove_network(name)


def _is_heard(engine: Engine, network: str, address: str, image: str) -> bool:
    """Whether a container in this network reaches a port of this host."""
    container = f"{network}-knock"
    with suppress(ReprokitError):
        engine.remove(container, force=True)  # of a build that was killed
    with listen(engine, address) as server:
        server.settimeout(_KNOCK_TIMEOUT_S)
        knock = f"exec 3<>/dev/tcp/{address}/{server.getsockname()[1]}"
        config = {"Image": image, "Cmd": ["bash", "-c", knock], "HostConfig": {"NetworkMode": network}}
        try:
            engine.create_container(container, {**config, "Entrypoint": []})
            engine.start(container)
            server.accept()[0].close()
        except (ReprokitError, OSError):
            return False
        finally:
            with suppress(ReprokitError):  # it may never have been
                engine.remove(container, force=True)
    return True
