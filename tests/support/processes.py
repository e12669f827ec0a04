"""Processes that tests start somewhere below, and look for by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.support.waiting import wait_for


def sleeping(seconds: str) -> list[int]:
    """The processes that sleep for so long: the number is this test's own."""
    return [pid for pid, line in _command_lines().items() if line == f"sleep\0{seconds}\0"]


def naming(text: object) -> list[int]:
    """The processes whose command line has this text, such as a path of the test's."""
    return [pid for pid, line in _command_lines().items() if str(text) in line]


def send_when_asleep(pid: int, number: int = signal.SIGINT) -> None:
    """Send a signal to a Python process once its main thread sleeps.

    CPython looks for signals, then calls the kernel to wait. If a signal arrives in between, it is handled only when
    the wait ends, which may be never.
    """
    wait_for(lambda: _asleep(pid))
    os.kill(pid, number)


def _asleep(pid: int) -> bool:
    """Whether the main thread sleeps all the time between two looks, or has ended."""
    looks = []
    for pause in (0.02, 0):
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        looks.append((status["State"][0], status["voluntary_ctxt_switches"]))
        time.sleep(pause)
    return looks[0] == looks[1] and looks[0][0] in "SZ"


def _command_lines() -> dict[int, str]:
    """By PID, of containers and nodes too. Words end in NUL."""
    lines = {int(path.parent.name): _content(path) for path in Path("/proc").glob("[0-9]*/cmdline")}
    return {pid: line.decode(errors="replace") for pid, line in lines.items()}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""
