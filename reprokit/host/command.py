"""Run programs with limits on time and output, even programs that cannot be killed."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import reprokit

_LOOK_S = 0.2
# `python -m` would import from the current folder first, which may be a stranger's checkout with a `json.py`.
_OWN = (
    "import sys; sys.path[:] = [*filter(None, sys.path), sys.argv.pop(1)]; import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)

# Threads of `doctor` outlive its main thread. At its end their programs are killed, and no more are started.
_starting = threading.Lock()
_groups: set[int] = set()
_ended = False

# A function of POSIX sh: report lines under a name, for `lines_of`.
SAY = """
say() { while IFS= read -r line || [ -n "$line" ]; do printf 'reprokit:%s %s\\n' "$1" "$line"; done; }
"""


class Flood(Exception):
    """A program printed more than its reader accepts."""


@dataclass(frozen=True)
class ProgramOutput:
    code: int
    out: str
    err: str


def own_module(name: str) -> list[str]:
    """The command that runs a module of reprokit as `python -m` does, without imports from the current folder."""
    return [sys.executable, "-c", _OWN, str(Path(reprokit.__file__).parent.parent), name]


def run(
    command: Sequence[str], limit_s: float, most: int, environment: Mapping[str, str] | None = None
) -> ProgramOutput:
    """Run a program without input. Undecodable bytes of its output are replaced.

    Raises subprocess.TimeoutExpired after `limit_s` seconds, Flood after `most` bytes of a stream, OSError if the
    program cannot be started. It is killed then with all its children, and not waited for: a process that hangs in a
    driver is out of reach of signals. It is also killed if this process ends earlier, with the caller in a thread.
    """
    process = _start(command, environment)
    try:
        out, err = exchanged(process, b"", limit_s, most)
    except BaseException:
        _kill(process.pid)
        raise
    finally:
        _groups.discard(process.pid)
        for stream in (process.stdout, process.stderr):
            cast(IO[bytes], stream).close()
    return ProgramOutput(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def lines_of(output: str) -> dict[str, list[str]]:
    """The lines that a script printed with `say`, by name; the output of login scripts is skipped."""
    facts: dict[str, list[str]] = {}
    for name, value in re.findall(r"^reprokit:(\w+) (.*)$", output, re.MULTILINE):
        facts.setdefault(name, []).append(value)
    return facts


def _start(command: Sequence[str], environment: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    with _starting:
        if _ended:
            raise ProcessLookupError("the process that would start it has ended")
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
            start_new_session=True,
        )  # fmt: skip
        _groups.add(process.pid)
        return process


@atexit.register
def _kill_all() -> None:
    global _ended
    with contextlib.ExitStack() as stack:
        if _starting.acquire(timeout=1):  # a program on a disk that hangs may never start
            stack.callback(_starting.release)
        _ended = True
        for group in _groups.copy():
            _kill(group)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def exchanged(process: subprocess.Popen[bytes], stdin: bytes, limit_s: float | None, most: int) -> tuple[bytes, bytes]:
    """As `Popen.communicate`, with at most `most` bytes of each stream. Raises subprocess.TimeoutExpired, Flood."""
    deadline = time.monotonic() + (float("inf") if limit_s is None else limit_s)
    out, err = bytearray(), bytearray()
    for _ in exchange(process, out, err, most, stdin):
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(process.args, limit_s or 0)
    process.wait(None if limit_s is None else max(0.0, deadline - time.monotonic()))
    return bytes(out), bytes(err)


def exchange(
    process: subprocess.Popen[bytes], out: bytearray, err: bytearray, most: int, stdin: bytes | None = None
) -> Iterator[bool]:
    """Feed a process, and read its streams into `out` and `err` up to their ends.

    Yields several times a second, True if nothing has come. Without `stdin` its input stays open. Only pipes are read.
    Raises Flood if a stream has more than `most` bytes.
    """
    kept = {stream: kept for stream, kept in ((process.stdout, out), (process.stderr, err)) if stream is not None}
    left = memoryview(stdin or b"")
    with selectors.DefaultSelector() as selector:
        for stream in kept:
            selector.register(stream, selectors.EVENT_READ)
        if stdin is not None and process.stdin is not None and not process.stdin.closed:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            ready = [cast(IO[bytes], key.fileobj) for key, _ in selector.select(_LOOK_S)]
            for stream in ready:
                if stream is process.stdin:
                    try:
                        left = left[os.write(stream.fileno(), left[: 1 << 16]) :]
                    except BlockingIOError:
                        pass
                    except BrokenPipeError:
                        left = left[:0]
                    if not left:
                        selector.unregister(stream)
                        with contextlib.suppress(BrokenPipeError):
                            stream.close()
                    continue
                block = os.read(stream.fileno(), 1 << 16)
                if not block:
                    selector.unregister(stream)
                kept[stream] += block
                if len(kept[stream]) > most:
                    raise Flood
            yield not ready
