"""`reprokit` as a process of its own, forked from one that has imported its modules.

A start takes a fifth of the processor time of `python -m reprokit`, and the suite runs hundreds of verbs. Tests of the
start itself, of signals, terminals and kills, and those that examine the process use `python -m reprokit`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT


def run_verb(
    *words: object,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    input: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run `reprokit WORDS` to its end, with the variables of `env` beside those of this process.

    It is killed where the test ends first, as at its time limit.
    """
    arguments = [str(word) for word in words]
    request = json.dumps([arguments, str(cwd or Path.cwd()), {**os.environ, **(env or {})}]).encode()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(input.encode())
        given.seek(0)
        with theirs:
            files = [given.fileno(), out.fileno(), errors.fileno(), theirs.fileno()]
            socket.send_fds(_server(), [request], files)
        pid = int(ours.recv(20))
        try:
            code = int(ours.recv(20))
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            raise
        texts = [_text(file) for file in (out, errors)]
    return subprocess.CompletedProcess(arguments, code, *texts)


def _text(file: tempfile._TemporaryFileWrapper[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")  # as `text=True` does


@cache
def _server() -> socket.socket:
    """The connection to this worker's server, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        code = f"from tests.support.verb_server import serve; serve({theirs.fileno()})"
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    return ours
