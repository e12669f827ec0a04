"""Programs at a terminal of a chosen size."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path


def shown(*arguments: str, columns: int = 80, rows: int = 24, cwd: Path | None = None, **env: str) -> str:
    """What `reprokit ARGUMENTS` writes to a terminal, without colours. `PAGER` is `cat` unless `env` has it."""
    return re.sub(r"\x1b\[[0-9;]*m", "", coloured(*arguments, columns=columns, rows=rows, cwd=cwd, **env))


def coloured(*arguments: str, columns: int = 80, rows: int = 24, cwd: Path | None = None, **env: str) -> str:
    """As `shown`, with the escape sequences."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [sys.executable, "-m", "reprokit", *arguments]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
    variables |= {"TERM": "xterm", "PAGER": "cat", **env}
    process = subprocess.Popen(command, cwd=cwd, env=variables, start_new_session=True, **streams)
    os.close(terminal)
    output = b""
    with contextlib.suppress(OSError):  # EIO: the program has ended
        while block := os.read(master, 1 << 16):
            output += block
    process.wait(timeout=120)
    os.close(master)
    return output.decode().replace("\r\n", "\n")


def typed(command: list[str], line: bytes) -> tuple[int, bytes]:
    """Start a program in a terminal of its own and type a line at its first prompt `# `.

    Returns its exit code and output.
    """
    ours, theirs = pty.openpty()
    running = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=_own_terminal)
    os.close(theirs)
    seen, done = b"", False
    with contextlib.suppress(OSError):  # the process of the terminal has ended
        while select.select([ours], [], [], 200)[0]:
            seen += os.read(ours, 4096)
            if not done and seen.endswith(b"# "):
                done = True
                os.write(ours, line)
    return running.wait(200), seen


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
