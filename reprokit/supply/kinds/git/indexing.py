"""The processor time in which git indexes a pack, by the pack's size: small deltas can make large objects."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reprokit.untrusted.limits import GIT_SECONDS

# A pack of this many bytes has all of git's time, an empty one that of the second number: 10 s and 1 s for each MB, of
# which TVM's history takes 0.1 s.
_ALL, _LEAST = 600_000_000, 10_000_000
_LOOK_S = 0.2
_UTIME, _SESSION = 11, 3  # in /proc/PID/stat, after the name; the system's time follows the user's


def seconds_for(packed: int) -> int:
    """The time for a pack of so many bytes."""
    return min(GIT_SECONDS.most, max(1, GIT_SECONDS.most * (_LEAST + packed) // _ALL))


def received(folder: Path) -> int:
    """Bytes of the packs in a repository, those included that git still receives."""
    size = 0
    for path in (folder / "objects" / "pack").glob("*pack*"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


@contextmanager
def indexing_limited(session: int, folder: Path) -> Iterator[list[int]]:
    """End the processes of a session if its `index-pack` takes longer than what `folder` received explains.

    Then the list gets the limit in seconds. The size of a pack is unknown before all of it is there, so that no limit
    can be given to the process at its start.
    """
    exceeded: list[int] = []
    finished = threading.Event()

    def watch() -> None:
        indexer = None
        while not finished.wait(_LOOK_S):
            size = received(folder)
            if size and indexer is None:
                indexer = _indexer(session)
            if indexer and _seconds(indexer) > (most := seconds_for(size)):
                exceeded.append(most)
                with suppress(ProcessLookupError):
                    os.killpg(session, signal.SIGKILL)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield exceeded
    finally:
        finished.set()
        watcher.join()


def _indexer(session: int) -> Path | None:
    """The folder in /proc of the session's `index-pack`."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(_stat(process)[_SESSION]) == session and b"\0index-pack\0" in (process / "cmdline").read_bytes():
                return process
    return None


def _seconds(process: Path) -> float:
    """Processor time so far; 0 once the process has ended."""
    with suppress(OSError):
        return sum(map(int, _stat(process)[_UTIME : _UTIME + 2])) / os.sysconf("SC_CLK_TCK")
    return 0


def _stat(process: Path) -> list[str]:
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
