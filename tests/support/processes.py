"""Processes that tests start somewhere below, and look for by name."""

from __future__ import annotations

from pathlib import Path


def sleeping(seconds: str) -> list[int]:
    """The processes that sleep for so long: the number is this test's own."""
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if _content(path) == f"sleep\0{seconds}\0".encode()
    ]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""
