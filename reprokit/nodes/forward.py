"""A node's engine, used from here through ssh forwarding; nothing of reprokit runs on the node."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.nodes.config import find
from reprokit.nodes.inventory import no_engine
from reprokit.nodes.remote import Remote
from reprokit.nodes.ssh import SshConnection, last_line

_FORWARD_S = 20
# In an address ssh replaces `${NAME}` by a variable of this user's environment, and splits at colons.
_HOST = r"(?:[\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}"
_FORWARDED = re.compile(rf"unix://(?P<path>/[\w.@+/-]+)|tcp://(?P<host>{_HOST})/?", re.ASCII)


@contextmanager
def engine_of(node: str) -> Iterator[Engine]:
    """The engine of a node, by its name or address. Raises SourceError if it cannot be reached, EngineError."""
    with SshConnection(find(node)) as connection:
        remote = Remote(connection)
        with engine_behind(connection, remote, remote.seen.docker) as engine:
            yield engine


@contextmanager
def engine_behind(connection: SshConnection, remote: Remote, address: str) -> Iterator[Engine]:
    """The engine at an address of the node, as DOCKER_HOST has it there. Raises EngineError, SourceError."""
    with tempfile.TemporaryDirectory(prefix="rk-", dir="/tmp") as folder:
        socket = Path(folder) / "d"
        _forward(connection, address, socket)
        try:
            engine = Engine.behind(str(socket), remote)
        except EngineError:
            # ssh shows only that nothing answers; the node's own client gives the reason.
            answer = connection.run("docker version >/dev/null")
            if not answer.returncode:
                raise
            raise no_engine(connection, answer.stderr) from None
        try:
            yield engine
        except EngineError:
            if not connection.broken:
                raise
            raise connection.lost("the connection broke; commands on the node may continue") from None


def _forward(connection: SshConnection, address: str, socket: Path) -> None:
    found = _FORWARDED.fullmatch(address)
    if found is None:
        raise EngineError(
            f"ssh cannot forward an engine at {address}",
            connection.node.name,
            "set DOCKER_HOST on the node",
        )
    ssh, *rest = connection.control
    command = [ssh, "-O", "forward", "-L", f"{socket}:{found['path'] or found['host']}", *rest]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_FORWARD_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise connection.lost(f"no answer within {_FORWARD_S} s") from None
    if done.returncode:
        raise EngineError(
            f"ssh cannot forward the node's engine: {last_line(done.stderr)}",
            connection.node.name,
            "does its sshd allow forwarding (AllowTcpForwarding, AllowStreamLocalForwarding)?",
        )
