"""Commands on a node, through the system's ssh and the user's configuration.

Every command uses one master connection a node. The master reads from a pipe of this process, so it ends when the
process is killed. ssh never prompts: a login that needs a password fails.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from reprokit.config.nodes import Node
from reprokit.errors import EngineError, SourceError
from reprokit.host.command import Flood, exchange, exchanged
from reprokit.untrusted.limits import NODE_ANSWER, NODE_LOGIN

CONNECT_S = 10
_PREFIX = "reprokit-ssh-"
_CERTAINLY_S = 120  # no login takes longer
LOST = 255  # ssh's exit code for failures that are not the remote command's
_READY = b"reprokit: connected"
# ssh adds 17 characters to the socket's path while it makes the socket; the kernel's limit is 107.
_LONGEST_FOLDER = 60
_OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "LogLevel": "ERROR",
}
# Engines may be outside the PATH of a non-login shell.
_PATH = "PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/snap/bin; export PATH\n"
_HINTS = (
    ("host key verification failed", "log in once with `ssh` and confirm the host's key"),
    ("permission denied", "reprokit never asks for passwords: set up a key (ssh-copy-id, ssh-agent)"),
    ("could not resolve", "check the name: `ssh -G NAME` shows how ssh resolves it"),
    ("", "check that the node is up: `ssh NODE`"),
)
_FLOOD = "log in with `ssh` and look at its output; a node's answers are not trusted"


class Lost(SourceError):
    """A node could not be reached, or the connection broke; another attempt may succeed."""


class SshConnection:
    """A connection to a node, as a context manager. Threads may share it; `close` is allowed at any time.

    Entering raises Lost if the node cannot be reached within `patience_s` seconds.
    """

    def __init__(self, node: Node, patience_s: float = 2 * CONNECT_S) -> None:
        self.node, self._patience_s = node, patience_s
        self._master: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._closed = False

    def __enter__(self) -> SshConnection:
        folder = tempfile.gettempdir()
        folder = folder if len(folder) < _LONGEST_FOLDER else "/tmp"
        _tidy(Path(folder))
        self._folder = tempfile.mkdtemp(prefix=_PREFIX, dir=folder)
        try:
            # The remote command keeps the connection open until this end of its input is closed.
            hold = _line(f"echo '{_READY.decode()}'; exec cat >/dev/null")
            ssh, *options = self.control
            self._master = _start(
                [ssh, "-M", "-o", "ControlPersist=no", "-o", "ClearAllForwardings=yes", *options, hold]
            )
            self._wait(self._master)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def control(self) -> list[str]:
        """The words of an `ssh` through this connection; the destination is the last one."""
        return ["ssh", "-S", str(Path(self._folder) / "c"), *_arguments(self.node)]

    def run(self, script: str, stdin: bytes = b"", limit_s: float | None = 60) -> subprocess.CompletedProcess[str]:
        """Run a script to its end. The caller checks its exit code; undecodable bytes are replaced.

        Raises Lost if the connection breaks or `limit_s` seconds pass, and as `answer` does.
        """
        out, err = self.answer(process := self.popen(script), stdin, limit_s)
        if process.returncode == LOST:
            raise self.lost(last_line(err))
        return subprocess.CompletedProcess(script, process.returncode, out, err)

    def answer(
        self, process: subprocess.Popen[bytes], stdin: bytes = b"", limit_s: float | None = None
    ) -> tuple[str, str]:
        """The output and errors of a process of `popen`, at most `limits.NODE_ANSWER` of each stream.

        Raises SourceError if there is more, Lost after `limit_s` seconds; both kill the process.
        """
        try:
            out, err = exchanged(process, stdin, limit_s, NODE_ANSWER.most)
            return out.decode(errors="replace"), err.decode(errors="replace")
        except Flood:
            problem = f"its answer is longer than {NODE_ANSWER.most >> 20} MiB"
            raise SourceError(problem, self.node.name, f"{_FLOOD}; {NODE_ANSWER.hint}") from None
        except subprocess.TimeoutExpired:
            raise self.lost(f"no answer within {limit_s:g} s") from None
        finally:
            _end(process)

    def feed(self, script: str, write: Callable[[IO[bytes]], None]) -> subprocess.CompletedProcess[str]:
        """Run a script with input from `write`; the script may stop reading early. Raises as `answer` does."""
        process = self.popen(script)
        assert process.stdin
        try:
            with contextlib.suppress(BrokenPipeError):
                write(process.stdin)
                process.stdin.close()
            out, err = self.answer(process)
        finally:
            _end(process)
        return subprocess.CompletedProcess(script, process.returncode, out, err)

    def popen(self, script: str) -> subprocess.Popen[bytes]:
        """Start a POSIX sh script with three pipes. Exit code `LOST` means that the connection broke."""
        return _start([*self.control, _line(_PATH + script)])

    def lost(self, why: str) -> Lost:
        """The error of a connection that broke."""
        why = re.sub(r"^ssh: ", "", why) or "the connection broke"
        hint = next(hint for sign, hint in _HINTS if sign in why.lower())
        return Lost(why, self.node.name, hint)

    @property
    def broken(self) -> bool:
        """Whether the connection broke; ssh gets a second to notice."""
        if self._master is None:
            return False
        try:
            self._master.wait(1)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """End the connection, with all commands that still run in it."""
        self._closed = True
        master = self._master
        if master is None:
            return
        master.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            master.wait(2)
        _end(master)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self, master: subprocess.Popen[bytes]) -> None:
        """Wait until the master is ready, ignoring the output of login scripts.

        Later output stays unread: ssh blocks the node when its pipes are full.
        """
        deadline = time.monotonic() + self._patience_s
        out, err = bytearray(), bytearray()
        ended = False
        try:
            for idle in exchange(master, out, err, NODE_LOGIN):
                if _READY in out:
                    return
                if self._closed or time.monotonic() > deadline:
                    raise self.lost(f"no login within {self._patience_s:g} s")
                if idle and ended:  # all output is read; a jump host's ssh may keep the pipe open a little longer
                    break
                ended = master.poll() is not None
        except Flood:
            raise SourceError(f"its login prints more than {NODE_LOGIN >> 10} KiB", self.node.name, _FLOOD) from None
        raise self.lost(last_line(err.decode(errors="replace")) or last_line(out.decode(errors="replace")))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that still runs, and close its pipes."""
    process.kill()
    with contextlib.suppress(BrokenPipeError), process:
        pass


def _tidy(folder: Path) -> None:
    """Remove the folders of killed processes, which are empty; those in use have a socket."""
    for left in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < time.time() - _CERTAINLY_S:
                left.rmdir()


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    # In a session of its own, the ssh of a jump host, which ignores BatchMode, cannot prompt either. Ctrl-C reaches
    # only this process, which closes its connections in order.
    environment = {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}
    environment.pop("SSH_ASKPASS", None)
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True)
    except FileNotFoundError:
        raise EngineError("ssh is not installed", hint="install the OpenSSH client") from None


def _arguments(node: Node) -> list[str]:
    options = [word for key, value in _OPTIONS.items() for word in ("-o", f"{key}={value}")]
    if node.user:
        options += ["-l", node.user]
    if node.port:
        options += ["-p", str(node.port)]
    if node.jump:
        options += ["-J", node.jump]
    return ["-T", *options, "--", node.host]


def _line(script: str) -> str:
    """A line that runs a script in sh under any login shell; csh and fish have other quoting."""
    spelled = re.sub(r"[\\'!%\n\t]", lambda match: f"\\0{ord(match[0]):03o}", script)
    return f"exec sh -c 'eval \"$(printf %b \"$0\")\"' '{spelled}'"


def last_line(output: str) -> str:
    """The last line that is not blank."""
    lines = [line.strip() for line in output.splitlines()]
    return next((line for line in reversed(lines) if line), "")
