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


def test_only_an_address_that_ssh_reads_as_it_is_is_forwarded():
    sockets = ["unix:///tmp/${TOKEN}", "unix:///tmp/%h", "unix:///a:b", "unix:///a b"]
    for address in [*sockets, "tcp://${TOKEN}:1", "tcp://h:1:2", "ssh://h"]:
        with pytest.raises(EngineError, match="cannot forward an engine at"):
            forwarded(address)
    for address in ("unix:///run/user/1000/docker.sock", "tcp://10.0.0.1:2375", "tcp://[::1]:2375/"):
        with pytest.raises(FileNotFoundError):
            forwarded(address)
