"""Which addresses of a node's engine ssh is given."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from reprokit.errors import EngineError
from reprokit.nodes.forward import engine_behind

# An ssh that is not there: it is started for addresses that are forwarded.
CONNECTION = SimpleNamespace(control=("/nowhere/ssh",), node=SimpleNamespace(name="lab"))


def forwarded(address: str) -> None:
    with engine_behind(CONNECTION, None, address):
        pass


@pytest.mark.parametrize(
    "address",
    [
        "unix:///tmp/${TOKEN}",
        "unix:///tmp/%h",
        "unix:///a:b",
        "unix:///a b",
        "tcp://${TOKEN}:1",
        "tcp://h:1:2",
        "ssh://h",
    ],
)
def test_an_address_that_ssh_would_read_otherwise_is_refused(address: str):
    with pytest.raises(EngineError, match="cannot forward an engine at"):
        forwarded(address)


@pytest.mark.parametrize("address", ["unix:///run/user/1000/docker.sock", "tcp://10.0.0.1:2375", "tcp://[::1]:2375/"])
def test_an_address_of_an_engine_is_forwarded(address: str):
    with pytest.raises(FileNotFoundError):
        forwarded(address)
