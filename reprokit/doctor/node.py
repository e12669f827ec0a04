"""A node as the machine that is examined: its sh and its engine, through one ssh connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from reprokit.config.nodes import Node
from reprokit.doctor.examined import Examined
from reprokit.doctor.shell import NodeShell
from reprokit.engine import Engine
from reprokit.nodes.forward import engine_behind
from reprokit.nodes.probe import DOCKER, docker_address
from reprokit.nodes.remote import Remote
from reprokit.nodes.ssh import SshConnection
from reprokit.recipe.find import Target


@contextmanager
def examined(node: Node, login_s: float, target: Target | None = None) -> Iterator[Examined]:
    """Connect to a node within `login_s` seconds. Raises SourceError if it cannot be reached, EngineError."""
    with SshConnection(node, login_s) as connection, ExitStack() as stack:
        shell = NodeShell(connection)

        def connect() -> Engine:
            address = docker_address(shell.ask(DOCKER).lines)
            return stack.enter_context(engine_behind(connection, Remote(connection), address))

        yield Examined(shell, connect, target)
