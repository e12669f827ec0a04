"""The examined machine, this one or a node, and the facts that several checks use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from reprokit.config.nodes import Node
from reprokit.doctor import gpus
from reprokit.doctor.bounded import Bounded, NoAnswer
from reprokit.doctor.gpus import GpuState
from reprokit.doctor.shell import LocalShell, NodeShell, Reported, Shell
from reprokit.engine import Engine, EngineInfo
from reprokit.nodes.remote import Remote, engine_behind
from reprokit.nodes.ssh import SshConnection
from reprokit.nodes.survey import DOCKER, docker_address
from reprokit.recipe.find import Target

ENGINE_S = 4.0
_GPU_S = 7.5
_NAMES = """
{ id -un; echo "${USER-}"; echo "${LOGNAME-}"; } 2>/dev/null | say user
{ uname -n; cat /etc/hostname; } 2>/dev/null | say host
echo "${HOME-}" | say home
"""


class NotAsked(Exception):
    """A check needs what another check reports as missing."""


class Examined:
    """`connect` connects to its engine; `target` is the variant to run on the machine.

    `names` are those of user, host and home, which a report must not show.
    """

    def __init__(self, shell: Shell, connect: Callable[[], Engine], target: Target | None = None) -> None:
        self.shell, self.target = shell, target
        self.connection = Bounded(connect, ENGINE_S)
        self._info = Bounded(lambda: self.connection.result().info(), 1.5 * ENGINE_S)
        self._gpus = Bounded(lambda: gpus.state(shell), _GPU_S)
        self.names = Bounded(self._ask_names, ENGINE_S)

    @property
    def node(self) -> str:
        return self.shell.node

    def ask(self, script: str) -> Reported:
        """Raises NoAnswer, OSError."""
        return self.shell.ask(script)

    def engine(self) -> Engine:
        """The engine, for all checks but that of its connection. Raises NotAsked."""
        try:
            return self.connection.result()
        except Exception:
            raise NotAsked("no engine answers") from None

    def info(self) -> EngineInfo:
        """The engine's info. Raises NotAsked."""
        self.engine()
        try:
            return self._info.result()
        except Exception:
            raise NotAsked("the engine does not report about itself") from None

    def gpus(self) -> GpuState:
        """Raises NotAsked."""
        try:
            return self._gpus.result()
        except (NoAnswer, OSError):
            raise NotAsked("the PCI bus cannot be read") from None

    def start(self) -> None:
        """Start the probes that several checks use."""
        self._info.start()
        self._gpus.start()
        self.names.start()

    def _ask_names(self) -> list[Reported]:
        """User, host and home folder of this login and, for a node, of the login there."""
        return [LocalShell().ask(_NAMES), *([self.ask(_NAMES)] if self.node else [])]


@contextmanager
def examined_node(node: Node, login_s: float, target: Target | None = None) -> Iterator[Examined]:
    """Connect to a node within `login_s` seconds. Raises SourceError if it cannot be reached, EngineError."""
    with SshConnection(node, login_s) as connection, ExitStack() as stack:
        shell = NodeShell(connection)

        def connect() -> Engine:
            address = docker_address(shell.ask(DOCKER).lines)
            return stack.enter_context(engine_behind(connection, Remote(connection), address))

        yield Examined(shell, connect, target)
