"""Run the POSIX sh scripts of checks, on this machine or a node.

A script reports with `... | say NAME`. It reads files below `$ROOT`, which is empty except in tests. Checks read files
only in such a process, because a read can hang in a driver or on a network disk.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from reprokit.doctor.bounded import NoAnswer
from reprokit.errors import ReprokitError
from reprokit.host.command import SAY, Flood, lines_of, run
from reprokit.nodes.ssh import Lost, SshConnection
from reprokit.untrusted.limits import COMMAND_ANSWER

ASK_S = 5.0
_FIX_S = 60.0
_SESSIONS = 6  # at once; an sshd allows 10 by default
_PATH = "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin\n"
_LONGEST = 400


@dataclass(frozen=True)
class Reported:
    """The lines that a script reported, by name."""

    lines: Mapping[str, list[str]]

    def all(self, name: str) -> list[str]:
        return [clipped(line) for line in self.lines.get(name, [])]

    def first(self, name: str) -> str:
        """The first line, "" if there is none."""
        return next(iter(self.all(name)), "")

    def number(self, name: str) -> int | None:
        """The first line as a whole number, None if it is no number."""
        return number(self.first(name))


def clipped(text: str) -> str:
    """At most 400 characters of untrusted text, stripped."""
    text = text.strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


class Shell(Protocol):
    """A machine's sh. `node` is the node's name, "" for this machine."""

    node: str

    def ask(self, script: str, limit_s: float = ASK_S) -> Reported:
        """Run a script; returns its report. Raises NoAnswer, OSError."""

    def carry_out(self, command: str) -> int:
        """Run a fix; returns its exit code."""


class LocalShell:
    """This machine's sh."""

    node = ""

    def __init__(self, root: str = "") -> None:
        self._root = root

    def ask(self, script: str, limit_s: float = ASK_S) -> Reported:
        prelude = f"{_PATH}ROOT={shlex.quote(self._root)}\n{SAY}"
        try:
            return Reported(lines_of(run(["sh", "-c", prelude + script], limit_s, COMMAND_ANSWER).out))
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"no answer within {limit_s:.2g} s") from None
        except Flood:
            raise NoAnswer(f"more than {COMMAND_ANSWER >> 20} MiB of output") from None

    def carry_out(self, command: str) -> int:
        # In the foreground, so that sudo can ask for a password.
        words = command.removeprefix("sudo ") if os.geteuid() == 0 else command
        return subprocess.run(["sh", "-c", f"{_PATH}{{ {words}; }} >&2"], check=False).returncode


class NodeShell:
    """A node's sh, through an open connection."""

    def __init__(self, connection: SshConnection) -> None:
        self.node = connection.node.name
        self._connection = connection
        self._sessions = threading.Semaphore(_SESSIONS)

    def ask(self, script: str, limit_s: float = ASK_S) -> Reported:
        try:
            with self._sessions:
                answer = self._connection.run(f"{_PATH}ROOT=\n{SAY}{script}", limit_s=limit_s)
            return Reported(lines_of(answer.stdout))
        except Lost as error:
            raise NoAnswer(error.message) from None

    def carry_out(self, command: str) -> int:
        words = f'[ "$(id -u)" = 0 ] || exec sudo -n sh -c {shlex.quote(command.removeprefix("sudo "))}\n'
        script = f"{words if command.startswith('sudo ') else ''}{command.removeprefix('sudo ')}"
        try:
            return self._connection.run(script, limit_s=_FIX_S).returncode
        except ReprokitError:
            return 1
