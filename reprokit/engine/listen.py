"""A server socket in the network of an engine's daemon, where the engine's containers find their host.

Rootless engines, and those started in a network namespace, have their own network. A socket stays in the network that
it was created in, even when another process uses it.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from pathlib import Path

from reprokit.engine import Engine
from reprokit.errors import EngineError

_MAKE = """
import socket, sys
made = socket.create_server((sys.argv[1], 0))
socket.send_fds(socket.socket(fileno=0), [b"."], [made.fileno()])
"""
_TIMEOUT_S = 30


def listen(engine: Engine, address: str) -> socket.socket:
    """A TCP socket that listens on a free port of `address` in that network.

    Raises EngineError where the network cannot be entered or has no such address.
    """
    daemon = _daemon(engine)
    if daemon is None or not _is_apart(daemon, "net"):
        try:
            return socket.create_server((address, 0))
        except OSError as error:
            raise EngineError(f"nothing can listen on {address}: {error.strerror}", engine.url) from None
    # A process cannot enter the user namespace that it is in.
    kinds = ["--user", "--net"] if _is_apart(daemon, "user") else ["--net"]
    command = ["nsenter", f"--target={daemon}", "--preserve-credentials", *kinds, "--"]
    command += [sys.executable, "-I", "-c", _MAKE, address]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            done = subprocess.run(
                command, stdin=theirs.fileno(), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _closed(engine, str(error)) from None
        if done.returncode:
            raise _closed(engine, (done.stderr.splitlines() or ["nsenter printed no message"])[-1])
        _, handles, _, _ = socket.recv_fds(ours, 1, 1)
    return socket.socket(fileno=handles[0])


def _daemon(engine: Engine) -> int | None:
    """The process behind the engine's socket; None where it is not visible here."""
    if engine.socket is None:
        return None
    with socket.socket(socket.AF_UNIX) as asked:
        try:
            asked.connect(engine.socket)
        except OSError:
            return None
        process, _, _ = struct.unpack("3i", asked.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return process or None


def _is_apart(process: int, kind: str) -> bool:
    """Whether a process is in another namespace; not where this user may not inspect it (root's daemons)."""
    try:
        return Path(f"/proc/{process}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink()
    except OSError:
        return False


def _closed(engine: Engine, why: str) -> EngineError:
    return EngineError(
        f"the engine has a network of its own, which cannot be entered: {why}",
        engine.url,
        "build as the user who runs the engine, or with `reprokit render` and `docker build`",
    )
