"""Run one command in a container, its input and output attached; whatever ends us ends the command too."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reprokit.container import names
from reprokit.container.signals import end, new_mark
from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.exec_stream import Connection

# Control keys of a session that the engine would take for itself. Its default begins with Ctrl-P, which
# shells need.
_DETACH_KEYS = ",".join(["ctrl-^"] * 6)
# Between the end of the output and the engine's note of the exit code.
_EXIT_CODE_TRIES = 100

Sink = Callable[[bool, bytes], None]


@dataclass(frozen=True)
class Attached:
    """How a command runs: `user` None is the caller, `workdir` None the container's, `stdin` a file descriptor."""

    env: Mapping[str, str] | None = None
    workdir: str | None = None
    user: str | None = None
    tty: bool = False
    stdin: int | None = None


def attach(
    engine: Engine,
    container: str,
    argv: Sequence[str],
    how: Attached,
    sink: Sink,
    started: Callable[[str], None] = lambda exec_id: None,
) -> int:
    """Run `argv` to its end and return its exit code; `sink(is_stderr, data)` is called from another thread.

    Where the sink or this thread raises (Ctrl-C, SIGTERM, a closed pipe), the command and all it started are
    ended first. Raises EngineError.
    """
    variable, mark = new_mark()
    user = how.user or names.command_user(engine, container)
    exec_id = engine.exec_create(
        container,
        list(argv),
        stdin=how.stdin is not None,
        tty=how.tty,
        user=user,
        environment=dict(how.env or {}) | {variable: mark},
        workdir=how.workdir,
        detach_keys=_DETACH_KEYS,
    )
    with contextlib.closing(engine.exec_attach(exec_id, how.tty)) as connection:
        reader = _Reader(connection, how.tty, sink)
        try:
            reader.start()
            started(exec_id)
            _feed(connection, how.stdin, reader)
            if reader.error is not None:
                raise reader.error
        except BaseException:
            # The reader goes on meanwhile: a program that tidies up may have much to say.
            end(engine, container, mark, user, reader.join)
            reader.join(1)
            raise
    return _exit_code(engine, exec_id)


class _Reader(threading.Thread):
    """Hands output to the sink; `ended` becomes readable when all has come or the sink has failed."""

    def __init__(self, connection: Connection, tty: bool, sink: Sink) -> None:
        super().__init__(daemon=True)
        self._blocks = _plain(connection) if tty else connection.frames()
        self._sink = sink
        self.error: BaseException | None = None
        self.ended, self._end = os.pipe()

    def run(self) -> None:
        try:
            for is_stderr, data in self._blocks:
                # After a failure output is read on and dropped: Engine 20.10 answers no call about a container while
                # it cannot get rid of a command's output.
                if self.error is None:
                    self._try(is_stderr, data)
        except (Exception, SystemExit) as error:
            self.error = self.error or error
        finally:
            self._wake()

    def _try(self, is_stderr: bool, data: bytes) -> None:
        try:
            self._sink(is_stderr, data)
        except (Exception, SystemExit) as error:
            self.error = error
            self._wake()

    def _wake(self) -> None:
        if self._end >= 0:
            os.close(self._end)
            self._end = -1


def _plain(connection: Connection) -> Iterator[tuple[bool, bytes]]:
    while data := connection.read():
        yield False, data


def _feed(connection: Connection, stdin: int | None, reader: _Reader) -> None:
    """Pass standard input on until the command's output ends."""
    waiting = [reader.ended] if stdin is None else [reader.ended, stdin]
    try:
        while True:
            ready, _, _ = select.select(waiting, [], [])
            if reader.ended in ready:
                return
            data = os.read(waiting[1], 1 << 16)
            try:
                if data:
                    connection.write(data)
                else:
                    connection.end_input()
                    waiting = waiting[:1]
            except OSError:  # the command no longer reads; its output tells the rest
                waiting = waiting[:1]
    finally:
        os.close(reader.ended)


def _exit_code(engine: Engine, exec_id: str) -> int:
    for _ in range(_EXIT_CODE_TRIES):
        code = engine.exec_exit_code(exec_id)
        if code is not None:
            return code
        select.select([], [], [], 0.05)
    raise EngineError("the engine does not say how the command ended", hint="see the engine's own log")
