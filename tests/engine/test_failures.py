"""The engine's errors as reprokit's own."""

from __future__ import annotations

import docker.errors
import pytest

from reprokit.engine.failures import translated
from reprokit.errors import UsageError


@pytest.mark.parametrize(
    "message",
    [
        "driver failed programming external connectivity on endpoint x (6b2): Bind for 127.0.0.1:8888 failed: "
        "port is already allocated",
        "driver failed programming external connectivity on endpoint x (6b2): Error starting userland proxy: listen "
        "tcp4 127.0.0.1:8888: bind: address already in use",
        "failed to set up container networking: failed to bind host port 127.0.0.1:8888/tcp: address already in use",
        "rootlessport listen tcp 127.0.0.1:8888: bind: address already in use",
    ],
)
def test_a_taken_port_is_named_in_one_line(message):
    with pytest.raises(UsageError) as error, translated(where="c"):
        raise docker.errors.APIError("500", explanation=message)
    assert error.value.message == "127.0.0.1:8888 is in use, by another program or container"
