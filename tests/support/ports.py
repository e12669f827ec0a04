"""Ports that are known before a program listens on them."""

from __future__ import annotations

import contextlib
import random
import re
import socket

from tests.support.names import WORKER

# Below the ports that the kernel gives to programs that ask for any.
_FIRST, _EACH = 20_000, 300


def free_port() -> int:
    """A port of loopback that no other program takes in the meantime: each worker has a range of its own."""
    first = _FIRST + _EACH * (int(re.sub(r"\D", "", WORKER) or 0) % 40)
    for port in random.sample(range(first, first + _EACH), _EACH):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
