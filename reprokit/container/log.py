"""The output of a container's commands, kept on the host.

The container's main process only idles, so the engine's own log is empty; a command's output goes only to the client
that started it. Logging it on the host needs nothing in the image, keeps exit codes exact, and outlives the container.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from reprokit import paths
from reprokit.engine import Engine
from reprokit.errors import EngineError

# A larger log is renamed to NAME.log.1, and a new one begins.
_KEEP_BYTES = 64 << 20
_BLOCK = 1 << 16


def key(engine: Engine, container: str) -> str:
    """The name of a container's files: its name, with the node's for a container on a node."""
    node = re.sub(r"[^A-Za-z0-9.-]", "_", engine.host.name)
    return f"{container}@{node}" if node else container


def log_path(container: str) -> Path:
    return paths.state() / "containers" / f"{container}.log"


def _older(path: Path) -> Path:
    return path.with_suffix(".log.1")


def move(container: str, name: str) -> None:
    """Rename the log of a container that was renamed to `name`."""
    old, new = log_path(container), log_path(name)
    for source, target in ((_older(old), _older(new)), (old, new)):
        with contextlib.suppress(FileNotFoundError):
            source.rename(target)


def forget(container: str) -> None:
    for path in (log_path(container), _older(log_path(container))):
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
            self._open()
        self.write(
            f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] $ {shlex.join(self._argv)}\n".encode(errors="backslashreplace")
        )
        return self

    def _open(self) -> None:
        # Output may hold secrets of its owner.
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, data: bytes) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                if os.fstat(self._file).st_size >= _KEEP_BYTES:
                    self._rotate()
                os.write(self._file, data)

    def _rotate(self) -> None:
        if _is_at(self._file, self._path):  # else another command of the container did it
            self._path.replace(_older(self._path))
        os.close(self._file)
        self._file = -1
        self._open()

    def exited(self, code: int) -> None:
        self.write(f"[exit {code} after {time.monotonic() - self._began:.1f} s]\n".encode())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.write(f"[{'interrupted' if isinstance(error, KeyboardInterrupt) else 'ended'}]\n".encode())
        if self._file >= 0:
            os.close(self._file)


def read(container: str, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
    """The log in blocks, its older part first: the last `tail` lines or all.

    With `follow` also later output, until interrupted.
    """
    path = log_path(container)
    if not path.exists():
        return
    with contextlib.ExitStack() as stack:
        file, older = _opened(stack, path)
        if tail is not None:
            missing = _seek_last(file, tail)
            _seek_last(older, missing + (missing < tail and not file.tell() and not _ends_a_line(older)))
        while block := older.read(_BLOCK):
            yield block
        while True:
            replaced = follow and not _is_at(file.fileno(), path)  # before reading: until then it may grow
            block = file.read(_BLOCK)
            if block:
                yield block
            elif replaced and path.exists():
                stack.close()
                file = stack.enter_context(path.open("rb"))
            elif not follow:
                return
            else:
                time.sleep(0.2)


def _opened(stack: contextlib.ExitStack, path: Path) -> tuple[IO[bytes], IO[bytes]]:
    """The log and its older part, which may be empty."""
    while True:
        file = stack.enter_context(path.open("rb"))
        older: IO[bytes] = io.BytesIO()
        with contextlib.suppress(FileNotFoundError):
            older = stack.enter_context(_older(path).open("rb"))
        if _is_at(file.fileno(), path):  # else it became the older part meanwhile
            return file, older


def _is_at(file: int, path: Path) -> bool:
    """Whether the open file is still the one with this name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), path.stat())
    return False


def _ends_a_line(file: IO[bytes]) -> bool:
    """Whether a file is empty or ends with a line end."""
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _seek_last(file: IO[bytes], lines: int) -> int:
    """Seek to the last `lines` lines; returns how many are missing. Reads blocks, as lines can be long or many."""
    end = file.seek(0, os.SEEK_END)
    if not lines or not end:
        return lines
    position = end - 1  # skip the newline of the last line
    while position > 0:
        start = max(0, position - _BLOCK)
        file.seek(start)
        block = file.read(position - start)
        newlines = block.count(b"\n")
        if newlines >= lines:
            newline = len(block)
            for _ in range(lines):
                newline = block.rindex(b"\n", 0, newline)
            file.seek(start + newline + 1)
            return 0
        lines -= newlines
        position = start
    file.seek(0)
    return lines - 1
