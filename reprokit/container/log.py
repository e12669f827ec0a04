"""The output of a container's commands, kept on the host.

The container's main process only idles, so the engine's own log is empty; a command's output goes only to the client
that started it. Logging it here needs nothing inside the image, keeps exit codes exact, and outlives the container.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from reprokit import paths
from reprokit.engine import Engine
from reprokit.errors import EngineError

# A larger log is renamed to NAME.log.1 when the next command starts.
_KEEP_BYTES = 64 << 20


def key(engine: Engine, container: str) -> str:
    """The name of a container's files here: its name, with the node's for a container on another machine."""
    node = re.sub(r"[^A-Za-z0-9.-]", "_", engine.host.name)
    return f"{container}@{node}" if node else container


def log_path(container: str) -> Path:
    return paths.state() / "containers" / f"{container}.log"


def move(container: str, name: str) -> None:
    """Rename the log of a container that is called `name` now."""
    with contextlib.suppress(FileNotFoundError):
        log_path(container).rename(log_path(name))


def forget(container: str) -> None:
    for path in (log_path(container), log_path(container).with_suffix(".log.1")):
        path.unlink(missing_ok=True)


class CommandLog:
    """Append a command line, its output and exit code. A log that cannot be written stops no command."""

    def __init__(self, container: str, argv: Sequence[str]) -> None:
        self._path = log_path(container)
        self._argv = argv
        self._file = -1
        self._began = time.monotonic()

    def __enter__(self) -> CommandLog:
        with contextlib.suppress(OSError, EngineError):
            paths.private(self._path.parent)
            if self._path.exists() and self._path.stat().st_size > _KEEP_BYTES:
                self._path.replace(self._path.with_suffix(".log.1"))
            # Output may hold secrets of its owner.
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] $ {shlex.join(self._argv)}\n".encode())
        return self

    def write(self, data: bytes) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.write(self._file, data)

    def exited(self, code: int) -> None:
        self.write(f"[exit {code} after {time.monotonic() - self._began:.1f} s]\n".encode())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.write(f"[{'interrupted' if isinstance(error, KeyboardInterrupt) else 'ended'}]\n".encode())
        if self._file >= 0:
            os.close(self._file)


def read(container: str, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
    """The log in blocks: the last `tail` lines or all; with `follow` also what is appended until interrupted."""
    path = log_path(container)
    if not path.exists():
        return
    with path.open("rb") as file:
        if tail is not None:
            yield from deque(file, maxlen=tail)
        while True:
            block = file.read(1 << 16)
            if block:
                yield block
            elif not follow:
                return
            else:
                time.sleep(0.2)
