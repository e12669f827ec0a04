"""Processes that tests start somewhere below, and look for by name."""

from __future__ import annotations

from pathlib import Path


def sleeping(seconds: str) -> list[int]:
    """The processes that sleep for so long: the number is this test's own."""
    return [pid for pid, line in _command_lines().items() if line == f"sleep\0{seconds}\0"]


def naming(text: object) -> list[int]:
    """The processes whose command line has this text, such as a path of the test's."""
    return [pid for pid, line in _command_lines().items() if str(text) in line]


def _command_lines() -> dict[int, str]:
    """By PID, of containers and nodes too. Words end in NUL."""
    lines = {int(path.parent.name): _content(path) for path in Path("/proc").glob("[0-9]*/cmdline")}
    return {pid: line.decode(errors="replace") for pid, line in lines.items()}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""
